// Package agent is what runs on every node beside the plugin. It installs the
// plugin, frees reservations whose time is over, corrects the state by what really
// runs, shows it in the API, and, where it is asked to, is the node's pod network.
//
// The plugin needs none of this: with the agent gone, pods start, end and come back
// to their addresses as before. In turn the agent never keeps the state open, and
// installing and sweeping need no API server.
package agent
