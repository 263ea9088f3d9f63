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
		"The API server first encodes all pods for the watch of the controller. "
	whySpent = "Until the controller was ready, it had a processor for %.1f s, and the API server for %.1f s."
)

// whyWrites says why a rebuild has its writes, and why none of them can be left out.
const whyWrites = "the five writes are to five objects or parts of objects, and a request changes one. (1) The controller writes the node into the status of the pod: " +
	"without that the scheduler may give the room on the node to another pod. (2) It opens the gate in the spec of the pod: the API server ignores " +
	"the spec in a write of the status, and the status in a write of the spec. (3) It records the UID and counts the outcome in the PersistentPodState: the next " +
	"rebuild is judged by that. (4) The agent writes the UID of the new pod into the IPReservation: with the former UID the reservation would be " +
	"that of a pod that is gone. (5) The event tells users what came of the rebuild. The pods of a rollout have one event together, and a pod that returns alone has its own."

// targets compares what was measured with the target values.
func (r *results) targets() []measure.Target {
	all := r.Memory.targets("one pod of five is recorded")
	for _, pods := range r.sizes() {
		all = append(all, r.AllRecorded[pods].targets("all pods are recorded")...)
	}
	all = append(append(all, r.Work.targets()...), r.Agents.targets()...)
	if r.Work == nil || r.Agents == nil {
		return all
	}
	sum, alone := r.Work.perRebuild()+r.Agents.perRebuild(), r.Work.perAlone()+r.Agents.perRebuild()
	return append(all, measure.Target{
		What: "writes for a rebuild, of controllers and agents together", Limit: "≤ 4", Got: fmt.Sprintf("%.1f", sum), Met: sum <= 4.05, Why: whyWrites,
	}, measure.Target{
		What: "writes for the rebuild of a pod that returns alone, of controllers and agents together", Limit: "≤ 4", Got: fmt.Sprintf("%.1f", alone), Met: alone <= 4.05, Why: whyWrites,
	})
}

func (m *memory) targets(mix string) []measure.Target {
	if m == nil {
		return nil
	}
	most := max(m.First.Most, m.Again.Most)
	ready := func(what string, s start) measure.Target {
		return measure.Target{
			What: fmt.Sprintf("controller: %s → ready with %d pods: %s", what, m.Fleet.Pods, mix), Limit: seconds(wantReady), Got: seconds(s.Ready),
			Met: s.Ready <= wantReady, Why: whyShared + fmt.Sprintf(whySpent, s.Processor.Seconds(), s.Server.Seconds()),
		}
	}
	return []measure.Target{
		{
			What: fmt.Sprintf("controller's memory with %d pods, highest: %s", m.Fleet.Pods, mix), Limit: measure.Megabytes(wantMemory), Got: measure.Megabytes(most),
			Met: most <= wantMemory, Why: fmt.Sprintf("the records are in memory, too. GOMEMLIMIT=%s bounds the heap, not the pages of the binary.", m.Limit),
		},
		ready("first start", m.First),
		ready("start", m.Again),
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
	fmt.Fprintf(&w, `# Benchmarks of a large cluster

Written by `+"`make bench-scale`"+`: etcd, kube-apiserver and limpet-controller as processes on one machine, with the nodes and pods of a large cluster as objects. The nodes, workloads and pods are written into etcd in the form in which the API server stores them. The next step begins when the API server has read them, has sent all pods to a watch like the scheduler's, and has nothing to do. Everything after that goes through the API server. etcd's files are in memory, so that no write waits for a disk.

%s
Each scene is a cluster of its own. The results of a scene stay until it runs again:

| scene | measured on | took | load of the machine before |
|---|---|---|---|
`, r.machines())
	for _, name := range r.runs() {
		ran := r.Ran[name]
		fmt.Fprintf(&w, "| %s | %s | %s | %.1f |\n", name, ran.Machine.Day, seconds(ran.Took), ran.Machine.Load)
	}
	w.WriteString("\n## Numbers to reach\n\n")
	w.WriteString(measure.Targets(r.targets()))
	w.WriteString("\n## One controller\n\nEach column is a cluster: in the first, one workload of five is a StatefulSet, whose pods ask to keep their addresses; in the others, each is.\n\n")
	r.controllers(&w)
	if r.Work != nil {
		r.Work.tables(&w, r.day(sceneWork))
	}
	if r.Agents != nil {
		r.Agents.tables(&w, r.day(sceneAgents))
	}
	r.loans(&w)
	return measure.Fold(w.String())
}

// controllers is the table of the scenes about one controller.
func (r *results) controllers(w *strings.Builder) {
	columns := []*memory{r.Memory}
	for _, pods := range r.sizes() {
		columns = append(columns, r.AllRecorded[pods])
	}
	row := func(what string, of func(*memory) string) {
		fmt.Fprintf(w, "| %s |", what)
		for _, m := range columns {
			cell := "–"
			if m != nil {
				cell = of(m)
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		w.WriteString("\n")
	}
	fmt.Fprintf(w, "| what | usual |%s\n|---|---|%s\n", strings.Repeat(" all recorded |", len(columns)-1), strings.Repeat("---|", len(columns)-1))
	fmt.Fprintf(w, "| measured on | %s |", r.day(sceneMemory))
	for _, pods := range r.sizes() {
		fmt.Fprintf(w, " %s |", r.day(recordedColumn(pods)))
	}
	w.WriteString("\n")
	row("nodes, workloads, pods", func(m *memory) string {
		return fmt.Sprintf("%d, %d, %d", m.Fleet.Nodes, m.Fleet.Workloads, m.Fleet.Pods)
	})
	row("PersistentPodStates, recorded pods", func(m *memory) string { return fmt.Sprintf("%d, %d", m.Fleet.Sets, m.Fleet.Records) })
	row("etcd's file", func(m *memory) string { return measure.Megabytes(m.Etcd) })
	row("`GOMEMLIMIT` of the controller", func(m *memory) string { return m.Limit })
	row("first start → ready", func(m *memory) string { return seconds(m.First.Ready) })
	row("processor time until then: controller, API server", func(m *memory) string {
		return seconds(m.First.Processor) + ", " + seconds(m.First.Server)
	})
	row("ready → all are recorded", func(m *memory) string { return seconds(m.Recorded) })
	row("writes for that", func(m *memory) string { return fmt.Sprint(m.FirstWrites) })
	row("memory after that, highest", func(m *memory) string {
		return measure.Megabytes(m.First.Later) + ", " + measure.Megabytes(m.First.Most)
	})
	row("restart → ready", func(m *memory) string { return seconds(m.Again.Ready) })
	row("processor time until ready: controller, API server", func(m *memory) string {
		return seconds(m.Again.Processor) + ", " + seconds(m.Again.Server)
	})
	row("memory when ready, 20 s later, highest", func(m *memory) string {
		return measure.Megabytes(m.Again.AtReady) + ", " + measure.Megabytes(m.Again.Later) + ", " + measure.Megabytes(m.Again.Most)
	})
	row("lists of more than one object, writes at a restart", func(m *memory) string { return fmt.Sprintf("%d, %d", m.Again.Lists, m.Again.Writes) })
	row("a minute at rest: requests, writes, processor time", func(m *memory) string {
		return fmt.Sprintf("%d, %d, %.2f s", m.RestRequests, m.RestWrites, m.RestProcessor.Seconds())
	})
}
