// Package ipam decides which address a pod gets: ranges and range sets as in host-local, the order in which their
// addresses are tried, and which reservation gives way when no address is free. The package reads free addresses
// through the interface View, and stores nothing.
package ipam
