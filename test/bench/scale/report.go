package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// Target values.
const (
	wantMemory = 600_000_000
	wantReady  = 30 * time.Second
)

const (
	whyShared = "API server, etcd, controller and this program share the cores of one machine with whatever else runs there. " +
		"The API server first reads all pods for the watch of the controller. "
	whySpent = "The controller itself had a processor for %.1f s until it was ready."
)

// targets compares what was measured with the target values.
func (r *results) targets() []measure.Target {
	all := r.Memory.targets("one pod of five is recorded")
	all = append(all, r.Recorded.targets("all pods are recorded")...)
	all = append(append(all, r.Work.targets()...), r.Agents.targets()...)
	if r.Work == nil || r.Agents == nil {
		return all
	}
	sum := r.Work.perRebuild() + r.Agents.perRebuild()
	return append(all, measure.Target{
		What: "writes for a rebuild, of controllers and agents together", Limit: "≤ 4", Got: fmt.Sprintf("%.1f", sum), Met: sum <= 4.05,
		Why: "the controller nominates the node (status of the pod), opens the gate (the pod), records the pod and counts the outcome (PersistentPodState, once for " +
			"all pods that become Ready together), and tells the outcome by an event on the pod; the agent shows the new pod's addresses (IPReservation). " +
			"These are five objects or parts of objects, which the API server takes one by one. The event alone says nothing that decides; users look for it.",
	})
}

func (m *memory) targets(mix string) []measure.Target {
	if m == nil {
		return nil
	}
	most := max(m.First.Most, m.Again.Most)
	why := whyShared + fmt.Sprintf(whySpent, m.Again.Processor.Seconds())
	return []measure.Target{
		{
			What: fmt.Sprintf("controller's memory with %d pods, highest: %s", m.Fleet.Pods, mix), Limit: measure.Megabytes(wantMemory), Got: measure.Megabytes(most),
			Met: most <= wantMemory, Why: "the records are in memory, too. " + memoryLimit + " bounds the heap, not the pages of the binary.",
		},
		{
			What: fmt.Sprintf("controller: start → ready with %d pods: %s", m.Fleet.Pods, mix), Limit: seconds(wantReady), Got: seconds(m.Again.Ready),
			Met: m.Again.Ready <= wantReady, Why: why,
		},
		{
			What: "writes of the controller in a minute at rest: " + mix, Limit: "0", Got: fmt.Sprint(m.RestWrites), Met: m.RestWrites == 0,
			Why: "see the requests below.",
		},
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// markdown renders the report.
func (r *results) markdown() string {
	var w strings.Builder
	var took time.Duration
	for _, d := range r.Took {
		took += d
	}
	fmt.Fprintf(&w, `# Benchmarks of a large cluster

Written by `+"`make bench-scale`"+`: etcd, kube-apiserver and limpet-controller as processes on one machine, with the nodes and pods of a large cluster as objects. The nodes, workloads and pods are written into etcd in the form in which the API server stores them; everything after that goes through the API server. etcd's files are in memory, so that no write waits for a disk.

* %s
* %s, %.0f s in all%s

## Numbers to reach

`, r.Machine, r.Machine.Day, took.Seconds(), measure.Precedence())
	w.WriteString(measure.Targets(r.targets()))
	w.WriteString("\n## One controller\n\nThe columns are two clusters: in the first, one workload of five is a StatefulSet, whose pods ask to keep their addresses; in the second, each is.\n\n")
	r.controllers(&w)
	if r.Work != nil {
		r.Work.tables(&w)
	}
	if r.Agents != nil {
		r.Agents.tables(&w)
	}
	return measure.Fold(w.String())
}

// controllers is the table of the scenes about one controller.
func (r *results) controllers(w *strings.Builder) {
	row := func(what string, of func(*memory) string) {
		fmt.Fprintf(w, "| %s |", what)
		for _, m := range []*memory{r.Memory, r.Recorded} {
			cell := "–"
			if m != nil {
				cell = of(m)
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		w.WriteString("\n")
	}
	w.WriteString("| what | usual | all recorded |\n|---|---|---|\n")
	row("nodes, workloads, pods", func(m *memory) string {
		return fmt.Sprintf("%d, %d, %d", m.Fleet.Nodes, m.Fleet.Workloads, m.Fleet.Pods)
	})
	row("PersistentPodStates, recorded pods", func(m *memory) string { return fmt.Sprintf("%d, %d", m.Fleet.Sets, m.Fleet.Records) })
	row("etcd's file", func(m *memory) string { return measure.Megabytes(m.Etcd) })
	row("first start → ready", func(m *memory) string { return seconds(m.First.Ready) })
	row("ready → all are recorded", func(m *memory) string { return seconds(m.Recorded) })
	row("writes for that", func(m *memory) string { return fmt.Sprint(m.FirstWrites) })
	row("memory after that, highest", func(m *memory) string {
		return measure.Megabytes(m.First.Later) + ", " + measure.Megabytes(m.First.Most)
	})
	row("restart → ready, processor time of the controller", func(m *memory) string { return seconds(m.Again.Ready) + ", " + seconds(m.Again.Processor) })
	row("memory when ready, 20 s later, highest", func(m *memory) string {
		return measure.Megabytes(m.Again.AtReady) + ", " + measure.Megabytes(m.Again.Later) + ", " + measure.Megabytes(m.Again.Most)
	})
	row("lists of more than one object, writes at a restart", func(m *memory) string { return fmt.Sprintf("%d, %d", m.Again.Lists, m.Again.Writes) })
	row("a minute at rest: requests, writes, processor time", func(m *memory) string {
		return fmt.Sprintf("%d, %d, %.2f s", m.RestRequests, m.RestWrites, m.RestProcessor.Seconds())
	})
}
