// Package endpoint bounds what a client can cost a program that listens: connections, time
// and the size of headers. Probes and metrics answer reads only.
package endpoint
