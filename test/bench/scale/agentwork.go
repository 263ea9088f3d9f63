package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// agentWork is what the scene with agents measures.
type agentWork struct {
	Nodes, Pods, Kept     int
	Start                 counts
	Rest, After           counts
	Seconds, AfterSeconds float64
	Rebuilds              int
	Rebuild               counts
	Rate                  int // of starts, in a second; 0 for all at once
	// Server and Program are resident bytes of the API server and of this program, with all agents at rest.
	Server, Program int64
}

// measureAgents takes the agents of many nodes through a start, rest, rebuilds and a restart of the
// API server. No controller runs.
func measureAgents(ctx context.Context, b *bench, r *results) error {
	f := fleet{nodes: b.size.AgentNodes, pods: b.size.AgentPods, recorded: 20, made: time.Now()}
	w := &agentWork{Nodes: f.nodes, Pods: f.pods, Kept: f.records(), Rebuilds: min(b.size.Rebuilds, f.records()), Rate: startRate}
	if err := b.fill(ctx, f); err != nil {
		return err
	}
	b.progress("start %d agents", f.nodes)
	all, err := b.startAgents(ctx, f)
	if err != nil {
		return err
	}
	if w.Start, err = b.untilQuiet(ctx, f.nodes); err != nil { // each agent writes its pool
		return err
	}
	if w.Rest, w.Seconds, err = b.observe(ctx, "rest"); err != nil {
		return err
	}
	if w.Server, w.Program, err = b.residentAtRest(); err != nil {
		return err
	}
	b.progress("%d rebuilds", w.Rebuilds)
	for _, i := range f.recordedPods()[:w.Rebuilds] {
		all.end(f, i)
		time.AfterFunc(4*time.Second, func() { all.attach(f, i, uuid.NewUUID()) })
		if err := measure.Wait(ctx, time.Second/rebuildRate); err != nil {
			return err
		}
	}
	if w.Rebuild, err = b.untilQuiet(ctx, w.Rebuilds); err != nil {
		return err
	}
	b.progress("restart the API server")
	if err := b.restartServer(ctx, min(10*time.Second, b.size.Rest)); err != nil {
		return err
	}
	if w.After, w.AfterSeconds, err = b.observe(ctx, "after the restart"); err != nil {
		return err
	}
	r.Agents = w
	return nil
}

// untilQuiet counts requests until the agents have made a number of writes, and then none for a while. An API server
// that is busy with the lists of thousands of agents lets them write nothing for longer.
func (b *bench) untilQuiet(ctx context.Context, least int) (all counts, err error) {
	for still := 0; still < 4; still++ {
		if err := measure.Wait(ctx, min(5*time.Second, b.size.Rest/4)); err != nil {
			return all, err
		}
		c, err := b.countAll()
		if err != nil {
			return all, err
		}
		if all.Requests, all.Writes = all.Requests+c.Requests, all.Writes+c.Writes; c.Writes > 0 || all.Writes < least {
			still = 0
			b.progress("%d writes of agents", all.Writes)
		}
	}
	return all, nil
}

// observe counts the requests of some time.
func (b *bench) observe(ctx context.Context, what string) (c counts, took float64, err error) {
	b.progress("%s, for %s", what, b.size.Rest)
	begin := time.Now()
	if err = measure.Wait(ctx, b.size.Rest); err != nil {
		return c, 0, err
	}
	took = time.Since(begin).Seconds()
	c, err = b.countAll()
	return c, took, err
}

// residentAtRest returns the resident memory of the API server and of this program, in bytes.
func (b *bench) residentAtRest() (server, program int64, err error) {
	pid, _, err := b.findServer()
	if err != nil {
		return 0, 0, err
	}
	if server, _, err = measure.Memory(pid); err != nil {
		return 0, 0, err
	}
	program, _, err = measure.Memory(os.Getpid())
	return server, program, err
}

// manyNodes is the number of nodes for which Limpet is made.
const manyNodes = 5000

// scaled tells what a cluster of many nodes has, where the scene has fewer.
func (w *agentWork) scaled() string {
	text := "The requests grow as the number of nodes, since an agent asks only for the objects of its node."
	if w.Nodes < manyNodes {
		text += fmt.Sprintf(" So %d nodes have %.4g times as many: an estimate, since the scene had fewer.", manyNodes, float64(manyNodes)/float64(w.Nodes))
	}
	if w.Rate > 0 {
		text += fmt.Sprintf(" The agents start at %d a second, since the API server looks at all IPReservations for the list of each agent: "+
			"in a cluster a DaemonSet starts them in steps.", w.Rate)
	}
	if w.Server > 0 {
		text += fmt.Sprintf(" At rest the API server had %s of resident memory, and the program with all agents %s.", measure.Megabytes(w.Server), measure.Megabytes(w.Program))
	}
	return text
}

// perNode is how many writes a node caused in ten minutes, from those of a shorter time.
func (w *agentWork) perNode() float64 {
	return float64(w.Rest.Writes) / float64(w.Nodes) * 600 / w.Seconds
}

// afterRestart is the requests of a hundred agents in a second.
func (w *agentWork) afterRestart() float64 {
	return float64(w.After.Requests) / w.AfterSeconds / float64(w.Nodes) * 100
}

func (w *agentWork) perRebuild() float64 {
	return float64(w.Rebuild.Writes) / float64(max(1, w.Rebuilds))
}

func (w *agentWork) targets() []measure.Target {
	if w == nil {
		return nil
	}
	return []measure.Target{
		{
			What: "writes of an agent at rest in 10 minutes, without leases", Limit: "≤ 1", Got: fmt.Sprintf("%.2f", w.perNode()), Met: w.perNode() <= 1,
			Why: "see the requests below.",
		},
		{
			What: "writes of agents for a rebuild of 4 s", Limit: "≤ 1", Got: fmt.Sprintf("%.1f", w.perRebuild()), Met: w.perRebuild() <= 1.05,
			Why: "an agent shows the addresses of the new pod; before that, that they are reserved, if the pod is away for more than 5 s; and a pool whose " +
				"numbers differ for 15 s.",
		},
		{
			What: "after a restart of the API server: requests a second of 100 agents", Limit: "≤ 2", Got: fmt.Sprintf("%.2f", w.afterRestart()),
			Met: w.afterRestart() <= 2,
			Why: fmt.Sprintf("agents open their watches again at random times within a minute; %.0f s of it were observed.", w.AfterSeconds),
		},
	}
}

// tables are what the scene with agents found.
func (w *agentWork) tables(to *strings.Builder, day string) {
	fmt.Fprintf(to, `
## Agents

Measured on %s. %d nodes with an agent each, %d pods, %d of which ask to keep their addresses. The agents are the loops that write to the API server, in one process with a connection each; their states are in memory in place of state files. The kubelet is the source of their pods, so that no agent watches pods. No controller runs.

| what | requests | writes |
|---|---|---|
| start of all agents | %d | %d |
| %.0f s at rest | %d | %d |
| %d rebuilds, of 4 s each | %d | %d |
| %.0f s after a restart of the API server | %d | %d |

%s
`,
		day, w.Nodes, w.Pods, w.Kept, w.Start.Requests, w.Start.Writes, w.Seconds, w.Rest.Requests, w.Rest.Writes,
		w.Rebuilds, w.Rebuild.Requests, w.Rebuild.Writes, w.AfterSeconds, w.After.Requests, w.After.Writes, w.scaled())
}
