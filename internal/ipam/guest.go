package ipam

import "net/netip"

// GuestGateway returns the gateway of a pod whose address is of another node: one in the subnet of the address, because the pod
// reaches no other. The node answers for it.
func GuestGateway(address netip.Prefix) netip.Addr {
	gateway := address.Masked().Addr().Next()
	if gateway == address.Addr() {
		gateway = gateway.Next()
	}
	return gateway
}
