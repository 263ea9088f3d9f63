// Package cni runs the verbs of the CNI protocol (specification 1.1.0 and all before) for
// limpet-ipam. Each verb gathers facts in one transaction on the node's state, asks a pure
// plan in pkg/reservation or internal/ipam, and applies the plan. Errors become CNI codes here.
//
// Beside it are netconf (the network configuration as data), outside (the seam to everything
// that knows of addresses beside the state), and two rooms behind that seam: coexist
// (host-local's files) and recovery (a lost or damaged state). An ADD or
// DEL on a node without files of host-local and with a sound state uses neither.
package cni
