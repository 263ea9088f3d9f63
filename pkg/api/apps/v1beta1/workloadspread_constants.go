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

// Annotations, labels and gates that are Limpet's own.
const (
	// AnnotationSpreadFailure on a WorkloadSpread says what happens to new pods while the
	// controller does not answer: Closed (the default) refuses them, Open creates them without a
	// subset.
	AnnotationSpreadFailure = "limpet.dev/failure-policy"
	// AnnotationHomeSubset on a pod is the subset that would have the pod if pods could be scheduled
	// there when the pod was created.
	AnnotationHomeSubset = "limpet.dev/home-subset"
	// AnnotationScaleIn on a workload is the order in which its pods are deleted; see
	// ScaleInBalanced.
	AnnotationScaleIn = "limpet.dev/scale-in-order"
	// AnnotationDeletionCost on a pod is the deletion cost that Limpet wrote. A pod with another
	// cost has it from a user or another program.
	AnnotationDeletionCost = "limpet.dev/deletion-cost"
	// AnnotationScaleOutLimit on a StatefulSet is how many of its pods may be not Ready at a time,
	// as a number or a percentage.
	AnnotationScaleOutLimit = "limpet.dev/scale-out-limit"
	// AnnotationPartition on a StatefulSet is the percentage of its pods that stay as they are
	// during a rolling update.
	AnnotationPartition = "limpet.dev/partition"
	// AnnotationExpectedUpdated on a StatefulSet is how many pods AnnotationPartition lets a
	// rolling update change. The controller writes it.
	AnnotationExpectedUpdated = "limpet.dev/expected-updated-replicas"
	// GateScaleOut is the scheduling gate of new pods that wait for AnnotationScaleOutLimit.
	GateScaleOut = "limpet.dev/scale-out"
)

// Values of AnnotationSpreadFailure.
const (
	SpreadClosed = "Closed"
	SpreadOpen   = "Open"
)

// ScaleInBalanced is the value of AnnotationScaleIn that keeps the difference between two
// topology domains at 1 at most.
const ScaleInBalanced = "balanced"

// LabelSpreads and its values.
const (
	// LabelSpreads is on each namespace whose new pods the API server sends to the planners of spreads: the value is open
	// or closed. The controller sets and removes it.
	LabelSpreads       = "limpet.dev/spreads"
	LabelSpreadsOpen   = "open"
	LabelSpreadsClosed = "closed"
)

// AnnotationSpreadsIdleSince is on a namespace without spreads, from which the controller will
// remove the label LabelSpreads. The creation of a spread removes the annotation.
const AnnotationSpreadsIdleSince = "limpet.dev/spreads-idle-since"

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
	// ReasonPodWaits: the scheduler finds no node for a pod of the subset, and new pods get the subset
	// all the same.
	ReasonPodWaits = "PodWaits"
)

// ConditionNearerSpread of a WorkloadSpread is True while pods of its target have another
// WorkloadSpread, whose target is nearer to them: that of their ReplicaSet before that of their
// Deployment. The reason has the same name.
const ConditionNearerSpread = "NearerSpread"

// ConditionRolloutBlocked of a WorkloadSpread is True while a rollout of its Deployment would wait
// without end: no pod goes before its successor is Ready, and no node of a subset has room for one
// pod more.
const ConditionRolloutBlocked = "RolloutBlocked"

// ReasonNoRoomToSurge is the reason of ConditionRolloutBlocked.
const ReasonNoRoomToSurge = "NoRoomToSurge"

// ConditionPlaced of a WorkloadSpread is True while new pods of the target get a subset.
const ConditionPlaced = "Placed"

// Reasons of ConditionPlaced.
const (
	// ReasonPlaced: new pods get a subset.
	ReasonPlaced = "Placed"
	// ReasonNoSubsetFits: each subset is full or takes no pods, so that a pod was created without
	// a subset.
	ReasonNoSubsetFits = "NoSubsetFits"
	// ReasonPatchFailed: a pod was created without the patch of its subset, which does not apply.
	ReasonPatchFailed = "PatchFailed"
)
