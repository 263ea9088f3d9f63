// Package hostlocal reads and mends the directory in which the host-local plugin keeps
// the addresses of one network, and the records that host-local's fork, Limpet's predecessor,
// kept in the same directory:
//
//	<dataDir>/<network>/10.1.2.3             "<container ID>\r\n<interface>"
//	<dataDir>/<network>/last_reserved_ip.0   the address last handed out from range set 0
//	<dataDir>/<network>/lock                 flocked by every verb of host-local
//	<dataDir>/reserved/<namespace>/<pod>     the fork's record of a pod, as JSON
//
// Limpet can write copies of its own addresses here, for host-local alone. Such a copy ends
// in a line feed. host-local ignores the line feed; Limpet sees it, and does not read the
// copy as an address in use.
package hostlocal
