// Command rebuild measures how long the clients of a pod get no answer while the pod is rebuilt, with Limpet and without.
// On a real cluster it rebuilds the pods of two StatefulSets in turns: one with Limpet, and one on upstream host-local in
// a namespace that Limpet ignores.
//
// The command is a module of its own, because it starts the cluster of test/cluster and
// test/e2e/bed, which are modules outside of the product's.
package main

import (
	"context"
	"encoding/json"
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

	"github.com/limpet-io/limpet/test/bench/answers"
	"github.com/limpet-io/limpet/test/bench/measure"
	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/e2e/bed"
)

type options struct {
	repo, dir, scenes string
	turns             int
}

// askVerb makes this program the client.
const askVerb = "ask"

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.repo, "repo", "../../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.dir, "dir", "docs/operate", "`directory` below the root with the page, its picture and the results of earlier runs")
	flag.StringVar(&o.scenes, "scenes", strings.Join(sceneNames(), ","), "scenes to run; the page has the others from earlier runs; \"\" to run none")
	flag.IntVar(&o.turns, "turns", 0, "turns of each side in a scene; 0 for as many as the scene says")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if flag.Arg(0) == askVerb {
		var interval time.Duration
		if interval, err = time.ParseDuration(flag.Arg(1)); err == nil {
			err = answers.Ask(ctx, os.Stdin, os.Stdout, interval)
		}
	} else {
		err = bench(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rebuild:", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, o options) error {
	in := func(file string) string { return filepath.Join(o.repo, o.dir, file) }
	const known = "runs/rebuild.json"
	r, err := readResults(in(known))
	if err != nil {
		return err
	}
	if o.scenes != "" {
		err = runScenes(ctx, o, r)
	}
	kept, encodeErr := json.MarshalIndent(r, "", "  ")
	text := r.markdown()
	fmt.Print(text)
	err = errors.Join(err, encodeErr)
	for file, content := range map[string][]byte{"runs/rebuild.md": []byte(text), "pictures/rebuild.svg": []byte(r.picture()), known: append(kept, '\n')} {
		err = errors.Join(err, os.WriteFile(in(file), content, 0o644))
	}
	return err
}

// runScenes runs scenes on one cluster.
func runScenes(ctx context.Context, o options, r *results) error {
	machine, err := measure.LookAround(o.repo)
	if err != nil {
		return err
	}
	start := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	b, err := bed.Up(ctx, "bench", o.repo, progress, func(c *cluster.Config) { c.DNS = true })
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(o.scenes, ",") {
		began := time.Now()
		if err = runScene(ctx, b, name, o.turns, r, progress); err != nil {
			err = fmt.Errorf("scene %s: %w", name, err)
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), b))
			break
		}
		r.Ran[name] = ran{machine, time.Since(began)}
	}
	return errors.Join(err, b.Down())
}

// runScene runs the turns of both sides alternately.
func runScene(ctx context.Context, b *bed.Bed, name string, turns int, r *results, progress func(string, ...any)) (err error) {
	if name == sceneMemory {
		progress("memory of the agent")
		r.Pods, r.Agent, err = agentMemory(ctx, b)
		return err
	}
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("there are the scenes %v", sceneNames())
	}
	s, found := scenes[i], []*figures{{}, {}}
	if turns == 0 {
		turns = s.turns
	}
	for n := range turns {
		for i, side := range sides {
			progress("%s, turn %d of %d: %s", s.title, n+1, turns, side.title)
			t := &turn{bed: b, scene: s, side: side}
			for pod := range s.replicas {
				t.pods = append(t.pods, fmt.Sprintf("%s-%d", set, pod))
			}
			if err := t.run(ctx, found[i]); err != nil {
				return fmt.Errorf("%s: %w", side.title, err)
			}
		}
	}
	r.Scenes[name] = []summary{found[0].summarise(), found[1].summarise()}
	return nil
}
