// GitLab's own Go client: its tests have recorded answers of the API.
module jervis.dev/hack/tools/recorded

go 1.26.0

require gitlab.com/gitlab-org/api/client-go v1.46.0
