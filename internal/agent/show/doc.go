// Package show keeps the API objects of one node like the state that its agent offers: IPReservations and
// NodeIPPools. The package needs no node, file or kernel, so that thousands of loops can run in one process.
//
// A node without changes writes nothing and lists nothing: the loop remembers what the server has. Each
// refused object waits by itself, and a server that is away or busy is left alone for a while. All waits
// have a random part, because thousands of agents lose their server at the same moment.
//
// Loop.pass in pass.go is the place to begin reading.
package show
