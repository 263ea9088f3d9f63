// Package cniplugin speaks the CNI protocol (specification 1.1.0 and every one
// before) for limpet-ipam: it reads the network configuration, runs each verb as
// one transaction on the node's state, and turns errors into CNI codes. What may
// be taken and what becomes of it is decided in pkg/reservation and pkg/ipam.
package cniplugin
