package loan

// Gate is the scheduling gate behind which a pod that follows waits until a node may have its address.
const Gate = "limpet.dev/loan"

// Finalizer keeps a loan, also in a namespace that is deleted, until home has the address back: nothing else says that no guest
// has it. The controller adds it, and who ends the loan removes it.
const Finalizer = "limpet.dev/loan"
