package v1beta1

// Annotations of a workload for which the controller generates a PersistentPodState.
const (
	// AnnotationAutoGenerate turns generation on with the value "true".
	AnnotationAutoGenerate = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredTopology is a comma-separated list of node label keys.
	AnnotationRequiredTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredTopology is a comma-separated list of node label keys.
	AnnotationPreferredTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPodAnnotations is a comma-separated list of annotation keys to record.
	AnnotationPodAnnotations = "kruise.io/persistent-pod-annotations"
)

// AnnotationInjected is the annotation with the name of the PersistentPodState that pinned
// the pod.
const AnnotationInjected = "kruise.io/injected-persistent-pod-state"

// ConditionRecording is True while the pods of the target are recorded and rebuilt pods are
// pinned.
const ConditionRecording = "Recording"

// Reasons of ConditionRecording.
const (
	// ReasonRecording: the target exists and its pods are recorded.
	ReasonRecording = "Recording"
	// ReasonNamespaceLeftOut: pods of this namespace are never pinned.
	ReasonNamespaceLeftOut = "NamespaceLeftOut"
	// ReasonRecordFull: the records of some pods would make the object too large.
	ReasonRecordFull = "RecordFull"
	// ReasonTargetMissing: the target does not exist; each record is kept for as long as its addresses may be reserved.
	ReasonTargetMissing = "TargetMissing"
	// ReasonTargetTaken: an older PersistentPodState has the same target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonTargetUnread: the target cannot be read; the records are kept.
	ReasonTargetUnread = "TargetUnread"
	// ReasonTargetUnsupported: the target's kind is not known to give pods stable names; the
	// records are kept.
	ReasonTargetUnsupported = "TargetUnsupported"
)

// ConditionWaiting is True while pods are Pending because their required place does not take
// them, or because their node fell silent before it started them. The reason is the first pod's, the message says what would help. The status is
// Unknown while the target's kind is not supported: the pods are not watched then.
const ConditionWaiting = "Waiting"

// ReasonNoneWaits is the reason of ConditionWaiting while it is False.
const ReasonNoneWaits = "NoneWaits"

// ConditionTopologyUnknown is True while a node of a recorded pod lacks a label that the spec
// names. Only such PersistentPodStates have it.
const ConditionTopologyUnknown = "TopologyUnknown"

// ReasonNodeLabelMissing is the reason of ConditionTopologyUnknown, and of the event about it.
const ReasonNodeLabelMissing = "NodeLabelMissing"

// ConditionKindsInvalid is True while a ConfigMap with workload kinds is malformed. Only
// PersistentPodStates and WorkloadSpreads whose target may be of such a kind have the condition.
const ConditionKindsInvalid = "KindsInvalid"

// ReasonKindsInvalid is the reason of ConditionKindsInvalid, and of the event on the
// ConfigMap.
const ReasonKindsInvalid = "InvalidWorkloadKinds"
