package v1beta1

// Annotations on a workload that ask for a PersistentPodState to be made for it.
const (
	// AnnotationAutoGenerate set to "true" asks for generation.
	AnnotationAutoGenerate = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredTopology is a comma-separated list of node label keys.
	AnnotationRequiredTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredTopology is a comma-separated list of node label keys.
	AnnotationPreferredTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPodAnnotations is a comma-separated list of annotation keys to record.
	AnnotationPodAnnotations = "kruise.io/persistent-pod-annotations"
)

// AnnotationInjected on a pod names the PersistentPodState that pinned it.
const AnnotationInjected = "kruise.io/injected-persistent-pod-state"

// ConditionRecording is True while the pods of a PersistentPodState's target are recorded
// and their successors pinned.
const ConditionRecording = "Recording"

// Reasons of ConditionRecording.
const (
	// ReasonRecording: the target is there and its pods are recorded.
	ReasonRecording = "Recording"
	// ReasonNamespaceLeftOut: pods of this namespace are never pinned.
	ReasonNamespaceLeftOut = "NamespaceLeftOut"
	// ReasonRecordFull: the records of some pods would make the object too large.
	ReasonRecordFull = "RecordFull"
	// ReasonTargetMissing: the target does not exist; the records wait for it.
	ReasonTargetMissing = "TargetMissing"
	// ReasonTargetTaken: an older PersistentPodState has the same target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonTargetUnread: whether the target exists cannot be known; the records wait.
	ReasonTargetUnread = "TargetUnread"
	// ReasonTargetUnsupported: the target's kind is not known to have pods with stable
	// names; the records wait.
	ReasonTargetUnsupported = "TargetUnsupported"
)

// ConditionWaiting is True while pods wait for a required place that does not take them.
// Its reason is that of the first pod, and its message says what would help. It is Unknown
// while the target's kind is not supported, for its pods are not looked at then.
const ConditionWaiting = "Waiting"

// ReasonNoneWaits is the reason of ConditionWaiting while it is False.
const ReasonNoneWaits = "NoneWaits"

// ConditionKindsInvalid is there, and True, while a ConfigMap that names kinds of workload
// is malformed, on PersistentPodStates whose target is of such a kind.
const ConditionKindsInvalid = "KindsInvalid"

// ReasonKindsInvalid is the reason of ConditionKindsInvalid, and of the event on the
// ConfigMap.
const ReasonKindsInvalid = "InvalidWorkloadKinds"
