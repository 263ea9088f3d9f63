// Package netconf turns a network configuration and CNI_ARGS into plain data. It reads
// no file, writes none and asks no clock.
package netconf
