package v1alpha1

// Annotations of a budget that are fields in v1beta1.
const (
	// AnnotationProtectOperations is protectOperations, separated by commas without blanks.
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas is protectTotalReplicas.
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
	// AnnotationIgnoredPodSelector is ignoredPodSelector, as JSON. OpenKruise loses this field
	// when a client of v1alpha1 writes the object.
	AnnotationIgnoredPodSelector = "limpet.dev/ignored-pod-selector"
)

// AnnotationBesideFields holds, as JSON, annotations of a v1beta1 object that have the names
// above. They mean nothing in v1beta1, and would be read as fields in v1alpha1.
const AnnotationBesideFields = "limpet.dev/v1beta1-annotations"
