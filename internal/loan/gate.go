package loan

// Gate is the scheduling gate behind which a pod that follows waits until a node may have its address.
const Gate = "limpet.dev/loan"
