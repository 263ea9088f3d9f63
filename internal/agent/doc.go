// Package agent is the part of Limpet that runs on every node beside the plugin. It
// installs the plugin, ends expired reservations, compares the state file with the existing pods
// and containers and corrects it, shows the state in the API, and can be the node's pod network.
//
// The plugin needs no agent: without one, pods start, end and return to their addresses.
// The agent never keeps the state file open. Installing and freeing need no API server.
//
// Package plan decides; this package gathers the facts and applies the decisions.
// Agent.round in round.go is the place to begin reading.
package agent
