// Command scale measures Limpet in a large cluster: a real etcd and API server hold thousands of
// nodes and up to 150 000 pods as objects. The pods are written into etcd as the API server
// stores them, because 150 000 creations and status updates would take ten minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
	"github.com/limpet-io/limpet/test/programs"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	p, size := place{}, full
	flag.StringVar(&p.Root, "root", ".", "directory of the repository")
	flag.StringVar(&p.Controller, "controller", "bin/limpet-controller", "the controller")
	flag.StringVar(&p.Assets, "assets", os.Getenv(programs.Var), "directory of kube-apiserver and etcd")
	flag.StringVar(&p.data, "data", "/dev/shm", "directory for etcd; a tmpfs has no flushes")
	out := flag.String("out", "", "file to write the tables to, as well as to standard output")
	known := flag.String("results", resultsFile, "file with the results of scenes that ran earlier, of which the tables are made; each scene adds its own")
	names := flag.String("scenes", strings.Join(sceneNames(), ","), "scenes to run; the tables have the others from -results; \"\" to run none")
	size.flags(flag.CommandLine)
	flag.Parse()
	text, err := measureScenes(ctx, p, size, *known, strings.Split(*names, ","))
	fmt.Print(text)
	if text != "" && *out != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(p.Root, *out), []byte(text), 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		return 1
	}
	return 0
}

// scale is how much of everything.
type scale struct {
	Nodes, Pods int // of the scene memory
	// RecordedNodes and RecordedPods are those of the scene recorded.
	RecordedNodes, RecordedPods int
	// WorkNodes and WorkPods are those of the scene work.
	WorkNodes, WorkPods int
	// AgentNodes and AgentPods are those of the scene agents.
	AgentNodes, AgentPods int
	// LoanNodes and Loans are those of the scene loans.
	LoanNodes, Loans int
	Rest             time.Duration // that is observed
	Rebuilds         int
	Bound            time.Duration // of a scene
	HeapLimit        string        // of the controllers; "" for what the sizing table says
}

var full = scale{Nodes: 5000, Pods: 150_000, RecordedNodes: 2000, RecordedPods: 60_000, WorkNodes: 5000, WorkPods: 30_000, AgentNodes: 5000, AgentPods: 30_000, LoanNodes: 5000, Loans: 10_000, Rest: time.Minute, Rebuilds: 300, Bound: 15 * time.Minute}

func (s *scale) flags(f *flag.FlagSet) {
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "nodes of the scene memory")
	f.IntVar(&s.Pods, "pods", s.Pods, "pods of the scene memory")
	f.IntVar(&s.RecordedNodes, "recorded-nodes", s.RecordedNodes, "nodes of the scene recorded")
	f.IntVar(&s.RecordedPods, "recorded-pods", s.RecordedPods, "pods of the scene recorded; the tables have a column for each number that ever ran")
	f.IntVar(&s.WorkNodes, "work-nodes", s.WorkNodes, "nodes of the scene work")
	f.IntVar(&s.WorkPods, "work-pods", s.WorkPods, "pods of the scene work")
	f.IntVar(&s.AgentNodes, "agent-nodes", s.AgentNodes, "nodes of the scene agents, each with an agent")
	f.IntVar(&s.AgentPods, "agent-pods", s.AgentPods, "pods of the scene agents")
	f.IntVar(&s.LoanNodes, "loan-nodes", s.LoanNodes, "nodes of the scene loans")
	f.IntVar(&s.Loans, "loans", s.Loans, "addresses on loan in the scene loans")
	f.DurationVar(&s.Rest, "rest", s.Rest, "how long a cluster at rest is observed")
	f.IntVar(&s.Rebuilds, "rebuilds", s.Rebuilds, "rebuilt pods")
	f.StringVar(&s.HeapLimit, "heap-limit", s.HeapLimit, "GOMEMLIMIT of the controllers; by default that of the table in docs/operate/operations.md")
	f.DurationVar(&s.Bound, "bound", s.Bound, "how long a scene may take")
}

// scene is a part of the benchmark with a cluster of its own.
type scene struct {
	name string
	run  func(context.Context, *bench, *results) error
}

// column is the name under which the results are kept.
func (s scene) column(size scale) string {
	if s.name == sceneRecorded {
		return recordedColumn(size.RecordedPods)
	}
	return s.name
}

const (
	sceneMemory   = "memory"
	sceneRecorded = "recorded"
	sceneWork     = "work"
	sceneAgents   = "agents"
	sceneLoans    = "loans"
)

func recordedColumn(pods int) string { return fmt.Sprintf("%s %d", sceneRecorded, pods) }

func scenes() []scene {
	return []scene{
		{sceneMemory, measureMemory},
		{sceneRecorded, measureRecorded},
		{sceneWork, measureWork},
		{sceneAgents, measureAgents},
		{sceneLoans, measureLoans},
	}
}

func sceneNames() []string {
	var names []string
	for _, s := range scenes() {
		names = append(names, s.name)
	}
	return names
}

var errNoScene = errors.New("no such scene")

// measureScenes runs some scenes and returns the report of all that ever ran.
func measureScenes(ctx context.Context, p place, size scale, file string, names []string) (string, error) {
	r, err := readResults(file)
	if err != nil {
		return "", err
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return name == "" }) {
		at := slices.Index(sceneNames(), name)
		if at < 0 {
			return "", fmt.Errorf("%s: %w; there are %s", name, errNoScene, strings.Join(sceneNames(), ", "))
		}
		if err := runScene(ctx, p, size, scenes()[at], r); err != nil {
			return r.markdown(), fmt.Errorf("scene %s: %w", name, err)
		}
		if err := r.write(file); err != nil {
			return "", err
		}
	}
	return r.markdown(), nil
}

func runScene(ctx context.Context, p place, size scale, s scene, r *results) (err error) {
	if p.Dir, err = os.MkdirTemp(p.data, "limpet-bench-scale-"); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(p.Dir) }() // of the temporary directory of this machine
	machine, err := measure.LookAround(p.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, size.Bound)
	b := &bench{Bed: bed.Bed{Place: p.Place}, size: size, scene: s.name, begin: time.Now(), endWatches: cancel}
	defer func() {
		stopped := b.stop()
		if err == nil && stopped != nil { // what the scene measured counts, and the data of its processes goes
			b.progress("stop: %v", stopped)
			return
		}
		err = errors.Join(b.told(err), stopped)
	}()
	if s.name != sceneLoans {
		if err := b.start(ctx); err != nil {
			return err
		}
	}
	if err = s.run(ctx, b, r); err != nil {
		return err
	}
	r.Ran[s.column(size)] = ran{machine, time.Since(b.begin)}
	return nil
}
