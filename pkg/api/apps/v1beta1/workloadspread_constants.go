package v1beta1

// Annotations of OpenKruise.
const (
	// AnnotationMatchedSpread is the annotation of a pod with the WorkloadSpread and the subset of
	// the pod, as the JSON of MatchedSpread.
	AnnotationMatchedSpread = "apps.kruise.io/matched-workloadspread"
	// AnnotationKeepMetadata on a WorkloadSpread with the value "true" leaves labels and
	// annotations of pods alone that were there before the WorkloadSpread.
	AnnotationKeepMetadata = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
)

// MatchedSpread is the value of AnnotationMatchedSpread.
//
// +kubebuilder:object:generate=false
type MatchedSpread struct {
	// Name of the WorkloadSpread.
	Name string `json:"name"`
	// Subset is the name of the subset.
	Subset string `json:"subset"`
	// UID identifies a pod that had no name yet when it was created.
	UID string `json:"uid,omitempty"`
}

// DeletionCostStep is the difference between the deletion costs of two neighbouring subsets. Of
// n subsets, the one with index i gives its pods the cost DeletionCostStep*(n-i), and those
// beyond maxReplicas the cost -DeletionCostStep*(i+1). Pods of no subset have the cost
// -DeletionCostStep*(n+1).
const DeletionCostStep = 100

// MissingUnlimited is missingReplicas of a subset without maxReplicas.
const MissingUnlimited = -1

const (
	// SubsetOfNone is the name, in the decisions of OpenKruise, of the subset of pods that belong
	// to none.
	SubsetOfNone = "kruise.io/workloadspread-fake-subset-name"
	// VersionIgnored is the key of versionedSubsetStatuses for workloads without versions.
	VersionIgnored = "versionIgnored"
)

// ConditionSchedulable of a subset is False while pods of the subset cannot be scheduled.
const ConditionSchedulable = "Schedulable"

// Reasons of ConditionSchedulable.
const (
	// ReasonSufficient: the subset takes pods.
	ReasonSufficient = "Sufficient"
	// ReasonPodUnschedulable: a pod of the subset could not be scheduled for too long.
	ReasonPodUnschedulable = "PodUnschedulable"
)

// ConditionSpread of a WorkloadSpread is True while new pods of the target get a subset.
const ConditionSpread = "Spread"
