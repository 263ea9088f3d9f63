// Package keepnodes keeps autoscalers from removing nodes that hold reservations, where --keep-nodes asks for that. It writes
// annotations of Nodes, and takes away those alone that it wrote.
package keepnodes
