{{- /*
Written by `python -m hack.chart` from controllers/pendingtask/phases.py, crds/pendingtask.py, crds/order.py and
hack/chart/admission.py; do not edit.
*/}}
{{- define "jervis.admission.transitions" -}}
{
  'New': ['DispatchedGpu', 'Done', 'Error', 'Qualifying', 'ReadyForGpu', 'ReadyForQualification', 'Scheduled', 'UserTask'],
  'Scheduled': ['DispatchedGpu', 'Done', 'Error', 'Qualifying', 'ReadyForGpu', 'ReadyForQualification', 'Scheduled', 'UserTask'],
  'ReadyForQualification': ['DispatchedGpu', 'Done', 'Error', 'Qualifying', 'ReadyForGpu', 'ReadyForQualification', 'Scheduled', 'UserTask'],
  'Qualifying': ['DispatchedGpu', 'Done', 'Error', 'ReadyForGpu', 'ReadyForQualification', 'Scheduled', 'UserTask'],
  'ReadyForGpu': ['DispatchedGpu', 'Done', 'UserTask'],
  'DispatchedGpu': ['Completed', 'Orchestrating', 'ReadyForGpu', 'UserTask'],
  'Orchestrating': ['Completed', 'ReadyForGpu', 'UserTask'],
  'UserTask': ['Done', 'Error', 'ReadyForGpu', 'ReadyForQualification', 'Scheduled'],
  'Done': [],
  'Completed': [],
  'Error': []
}
{{- end }}

{{- define "jervis.admission.beforeRoute" -}}
['Qualifying', 'ReadyForQualification']
{{- end }}

{{- define "jervis.admission.finishedPhases" -}}
['Completed', 'Done', 'Error']
{{- end }}

{{- define "jervis.admission.dispatchedPhases" -}}
['Completed', 'DispatchedGpu', 'Done', 'Error', 'Orchestrating']
{{- end }}

{{- define "jervis.admission.foregroundTypes" -}}
['UserInputProcessing']
{{- end }}

{{- define "jervis.admission.changedInput" -}}
(object.spec.?projectId == oldObject.spec.?projectId ? [] : ['spec.projectId']) +
(object.spec.?groupId == oldObject.spec.?groupId ? [] : ['spec.groupId']) +
(object.spec.?sourceUrn == oldObject.spec.?sourceUrn ? [] : ['spec.sourceUrn']) +
(object.spec.?correlationId == oldObject.spec.?correlationId ? [] : ['spec.correlationId']) +
(object.spec.?timeZone == oldObject.spec.?timeZone ? [] : ['spec.timeZone']) +
(object.spec.?content == oldObject.spec.?content ? [] : ['spec.content']) +
(object.spec.?contentRef == oldObject.spec.?contentRef ? [] : ['spec.contentRef']) +
(object.spec.?attachments == oldObject.spec.?attachments ? [] : ['spec.attachments']) +
(object.spec.?facts == oldObject.spec.?facts ? [] : ['spec.facts']) +
(object.spec.?access == oldObject.spec.?access ? [] : ['spec.access']) +
(object.spec.?schedule == oldObject.spec.?schedule ? [] : ['spec.schedule'])
{{- end }}

{{- define "jervis.admission.changedPlace" -}}
(object.spec.?projectId == oldObject.spec.?projectId ? [] : ['spec.projectId']) +
(object.spec.?groupId == oldObject.spec.?groupId ? [] : ['spec.groupId']) +
(object.spec.?sourceUrn == oldObject.spec.?sourceUrn ? [] : ['spec.sourceUrn'])
{{- end }}

{{- define "jervis.admission.changedSteering" -}}
(object.spec.?mode == oldObject.spec.?mode ? [] : ['spec.mode']) +
(object.spec.?queuePosition == oldObject.spec.?queuePosition ? [] : ['spec.queuePosition']) +
(object.spec.?messages == oldObject.spec.?messages ? [] : ['spec.messages']) +
(object.spec.?answers == oldObject.spec.?answers ? [] : ['spec.answers']) +
(object.spec.?approval == oldObject.spec.?approval ? [] : ['spec.approval']) +
(object.spec.?permits == oldObject.spec.?permits ? [] : ['spec.permits']) +
(object.spec.?approvalPolicy == oldObject.spec.?approvalPolicy ? [] : ['spec.approvalPolicy']) +
(object.spec.?suspend == oldObject.spec.?suspend ? [] : ['spec.suspend']) +
(object.spec.?activeDeadlineSeconds == oldObject.spec.?activeDeadlineSeconds ? [] : ['spec.activeDeadlineSeconds']) +
(object.spec.?budget == oldObject.spec.?budget ? [] : ['spec.budget'])
{{- end }}
