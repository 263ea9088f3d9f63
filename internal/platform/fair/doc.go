// Package fair lets namespaces take turns within bounds, and callers likewise: what many ask for in one namespace
// delays a request of another one by one request at most.
//
//	InTurns    orders what is there already
//	Turns      orders what comes and goes, such as the requests of a work queue
//	Semaphore  lets requests wait for their turn, within bounds of each key and of all
//	Memory     remembers within bounds of each namespace and of all
//	Rests      puts off what was large, or was done, a moment ago
package fair
