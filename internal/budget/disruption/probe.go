package disruption

// GuardPath is the path of the webhooks that ask the guard.
const GuardPath = "/guard-pod"

// A probe is a dry run of an eviction that the leader sends through the API server, to learn
// whether the guard is called for a namespace. The API server asks its webhooks before it
// looks for the pod, so that no pod is needed. The guard refuses every probe.
const (
	// ProbeName is the name of the pod in a probe. No pod has to exist under this name.
	ProbeName = "limpet-guard-probe"
	// CauseProbe is the type of the cause in the answer to a probe. No other answer has it.
	CauseProbe = "GuardProbe"
)
