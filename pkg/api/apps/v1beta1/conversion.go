package v1beta1

// Hub marks the version that every other one is converted to and from.
func (*PersistentPodState) Hub() {}
