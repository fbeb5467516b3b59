"""The orchestrator's Job, as a real process, against a MongoDB wire, the simulator and a scripted knowledge base."""
