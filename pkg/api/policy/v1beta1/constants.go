package v1beta1

// Annotations and labels of OpenKruise.
const (
	// AnnotationNoProtect on a pod with a true value exempts the pod from all budgets.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
	// AnnotationIgnoreScale on a budget with the value "true" takes the number of covered pods
	// for the size of the workload, instead of the workload's replicas.
	AnnotationIgnoreScale = "pub.kruise.io/disable-fetch-replicas-from-workload"
	// LabelUnavailablePrefix begins the labels that make a Ready pod count as unavailable.
	LabelUnavailablePrefix = "unavailable-pod.kruise.io/"
)

// Annotations of a budget that are Limpet's own.
const (
	// AnnotationVectors overrides what a budget does about a way in which pods go away, as
	// comma-separated pairs such as preemption=Check,scale-in=Allow.
	AnnotationVectors = "limpet.dev/vectors"
	// AnnotationFailurePolicy says what happens to pods while the controller does not answer:
	// Open (the default) lets them go, Closed keeps them.
	AnnotationFailurePolicy = "limpet.dev/failure-policy"
	// AnnotationKeepPlace with the value "true" refuses a disruption of a pod whose address or
	// node would not be there for the rebuilt pod.
	AnnotationKeepPlace = "limpet.dev/keep-place"
	// AnnotationProtectUnready with the value "true" keeps pods that run and are not Ready while
	// the budget is short.
	AnnotationProtectUnready = "limpet.dev/protect-unready"
	// AnnotationStableSeconds is how long a pod must be Ready before it counts as available.
	AnnotationStableSeconds = "limpet.dev/stable-seconds"
)

// LabelBudgets and its values.
const (
	// LabelBudgets is on each namespace whose pods the API server sends to the guards: the value is open or closed, or
	// asked where no budget is, but pods that ask to be out of service first. The controller sets and removes it.
	LabelBudgets       = "limpet.dev/budgets"
	LabelBudgetsOpen   = "open"
	LabelBudgetsClosed = "closed"
	LabelBudgetsAsked  = "asked"
)

// AnnotationDrainFirst on a pod is for how long it is out of service before it is deleted, evicted or changed in place, as a duration.
const AnnotationDrainFirst = "limpet.dev/drain-first"

// AnnotationLifecycle on a pod has the hooks preDelete and inPlaceUpdate, as OpenKruise's workloads have them: a pod that is
// out of service goes, or is changed, as soon as it has none of their labels and finalizers.
const AnnotationLifecycle = "limpet.dev/lifecycle"

// ConditionInService is the readiness gate of a pod with one of these annotations, and the condition that it waits for.
const ConditionInService = "limpet.dev/in-service"

// AnnotationIdleSince is on a namespace without budgets, from which the controller will remove
// the label LabelBudgets. The creation of a budget removes the annotation.
const AnnotationIdleSince = "limpet.dev/budgets-idle-since"

// AnnotationReplace with the value "true" on a namespace lets the controller replace
// PodDisruptionBudgets that share pods by PodUnavailableBudgets.
const AnnotationReplace = "limpet.dev/replace-disruption-budgets"

// AnnotationPeers on a PodDisruptionBudget names the budgets that count it among their peers, each as the site in its
// status, separated by commas.
const AnnotationPeers = "limpet.dev/peers"

// FieldManagerBudgets is the field manager of what the controller writes into a namespace.
const FieldManagerBudgets = "limpet-budgets"

// Conditions of a budget.
const (
	// ConditionEnforced is True while the guard is installed, current and called.
	ConditionEnforced = "Enforced"
	// ConditionDisruptionAllowed is True while a further pod may be disrupted.
	ConditionDisruptionAllowed = "DisruptionAllowed"
)
