package podpatch

// AnnotationPlace on a pod names the node labels that its PersistentPodState requires of
// its node. The pod's affinity has them too, and cannot be relaxed any more.
const AnnotationPlace = "limpet.dev/required-place"
