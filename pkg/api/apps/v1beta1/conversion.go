package v1beta1

// Hub marks v1beta1 as the version that all others are converted to and from.
func (*PersistentPodState) Hub() {}

// Hub marks v1beta1 as the version that all others are converted to and from.
func (*WorkloadSpread) Hub() {}
