// Package chaos disturbs a cluster with Limpet at random, and watches with eyes of its own
// whether the promises to users hold meanwhile. A seed decides all that is done, so that a
// violation can be looked for again.
//
//	Schedule   what is done when (pure)
//	Keeper     which pods must come back where, and which addresses no other pod may get (pure)
//	Run        does and watches it on a cluster, and looks at what is left at the end
package chaos

import (
	"fmt"
	"time"
)

// Kind is a way of disturbing a cluster.
type Kind string

// Kinds of faults.
const (
	Delete          Kind = "delete pods"
	ForceDelete     Kind = "force-delete a pod"
	Evict           Kind = "evict pods"
	Rollout         Kind = "restart a rollout"
	Scale           Kind = "scale in and out"
	KillAgent       Kind = "kill an agent"
	KillControllers Kind = "kill the controllers"
	KillPlugins     Kind = "kill CNI plugins"
	KillContainerd  Kind = "kill containerd"
	KillKubelet     Kind = "kill the kubelet"
	KillAPIServer   Kind = "kill the API server"
	Drain           Kind = "drain a node"
	PowerLoss       Kind = "cut a node's power"
	Partition       Kind = "cut a node's network"
	TakeForDead     Kind = "take a node for dead"
	DamageState     Kind = "damage a state file"
	RollBackState   Kind = "roll a state file back"
	FillDisk        Kind = "fill a disk"
	DamagePlugin    Kind = "damage a plugin"
	ReplacePlugins  Kind = "replace the directory of plugins"
	ReplaceState    Kind = "replace the directory of a state"
)

// lanes are kinds that follow each other. Faults of different lanes overlap, so that a pod is
// deleted while the controller is away and another node has no power. One node at a time is
// disturbed: two of three nodes away prove nothing but that pods wait.
var lanes = []lane{
	{
		kinds: []Kind{Delete, ForceDelete, Delete, Evict, Rollout, Scale},
		pause: 2 * time.Second, spread: 5 * time.Second,
	},
	{
		kinds: []Kind{KillAgent, KillControllers, KillPlugins, KillContainerd, KillKubelet, KillAPIServer},
		pause: 8 * time.Second, spread: 10 * time.Second,
	},
	{
		kinds: []Kind{Drain, PowerLoss, Partition, TakeForDead, DamageState, RollBackState, FillDisk, DamagePlugin, ReplacePlugins, ReplaceState},
		pause: 30 * time.Second, spread: 20 * time.Second,
	},
}

// lane is a sequence of faults, with a pause between the end of one and the next.
type lane struct {
	kinds         []Kind
	pause, spread time.Duration
}

// lasts is how long the faults of a kind last, at the least and at the most; other kinds take a moment.
var lasts = map[Kind][2]time.Duration{
	Scale:         {4 * time.Second, 15 * time.Second},
	KillPlugins:   {2 * time.Second, 6 * time.Second},
	KillAPIServer: {time.Second, 12 * time.Second},
	Drain:         {5 * time.Second, 20 * time.Second},
	PowerLoss:     {2 * time.Second, 30 * time.Second},
	Partition:     {5 * time.Second, 30 * time.Second},
	TakeForDead:   {10 * time.Second, 30 * time.Second},
	RollBackState: {5 * time.Second, 15 * time.Second},
	FillDisk:      {10 * time.Second, 30 * time.Second},
}

// Fault is one disturbance.
type Fault struct {
	// At is the time after the start, and For how long the fault lasts; 0 for a moment.
	At, For time.Duration
	Kind    Kind
	// Node is disturbed by kinds that disturb one.
	Node string
	// Pick chooses among what is there at that time: pods, a workload.
	Pick uint64
}

// String returns a line for the log.
func (f Fault) String() string {
	text := string(f.Kind)
	if f.Node != "" {
		text += " on " + f.Node
	}
	if f.For > 0 {
		text += fmt.Sprintf(", for %s", f.For.Round(100*time.Millisecond))
	}
	return text
}
