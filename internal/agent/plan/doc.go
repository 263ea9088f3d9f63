// Package plan holds the decisions of the node agent as pure functions: facts in, data
// out. It reads no clock, file, kernel table or API; package agent gathers the facts and
// applies what the functions here return.
//
// The files, by their subjects:
//
//   - state, pods: what the agent knows of its node
//   - attachments, audit: which attachments to correct and to end, and which no component will end
//   - orphans, hold, release: which reservations to end, and whose clock begins again
//   - refill: which reservations a node that was installed again gets back
//   - markers, leftovers: which files of waiting ADDs, and of interrupted installations, to remove
//   - mirror, pool, ages: what the API and metrics should show of the node's state
//   - changes, turns: which API objects to create, update and delete so that the API shows this, in which order
//   - retry: what an answer of the API server means, and how long to wait after it
//   - verbs: what to count of the log of limpet-ipam
//   - ipam: which IPAM plugin gives pods their addresses on this node
//   - adopt, patch: how limpet-ipam takes the place of host-local in the network of others, and back
//   - network, nodenetwork, conflist, owners, claims, routes: what to set up where Limpet is the pod network
//   - loans, loanroutes: which addresses follow pods between nodes, and the routes to them
//   - flannel, shared: where addresses follow in the network of others
package plan
