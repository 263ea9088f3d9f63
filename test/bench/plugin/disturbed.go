package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// disturbance is what slows both plugins: flushes that take longer, or busy processes.
type disturbance struct {
	flush time.Duration
	busy  int
}

// disturbances begin with a run through strace that delays nothing: the process of strace takes as long in each.
var disturbances = []disturbance{{}, {flush: time.Millisecond}, {flush: 10 * time.Millisecond}, {flush: 40 * time.Millisecond}, {busy: 32}}

// disturbedName selects all disturbances.
const disturbedName = "disturbed"

// disturbedResult holds the measurements beside a disturbance: of pods that ask for nothing, and of pods that ask.
type disturbedResult struct {
	disturbance
	plain, asking scenarioResult
}

func (d disturbance) String() string {
	switch {
	case d.busy > 0:
		return fmt.Sprintf("%d busy processes", d.busy)
	case d.flush > 0:
		return fmt.Sprintf("a flush takes %d ms longer", d.flush.Milliseconds())
	}
	return "strace alone"
}

// through returns the program that delays each flush of a plugin; none beside busy processes.
func (d disturbance) through() ([]string, error) {
	if d.busy > 0 {
		return nil, nil
	}
	path, err := exec.LookPath("strace")
	line := []string{path, "--seccomp-bpf", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"}
	if d.flush > 0 {
		line = append(line, "-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", d.flush.Microseconds()))
	}
	return line, err
}

func runDisturbed(ctx context.Context, b bench) (all []disturbedResult, err error) {
	if !strings.Contains(disturbedName, b.only) {
		return nil, nil
	}
	for _, d := range disturbances {
		r := disturbedResult{disturbance: d}
		if b.through, err = d.through(); err != nil {
			return nil, err
		}
		stop, err := startBusy(ctx, d.busy)
		if err == nil {
			s := scenario{name: d.String(), rounds: 60, repeat: 1, prepare: inUse, steps: []step{add, end}}
			r.plain, err = s.run(ctx, b)
			if err == nil {
				s.prepare = asking(inUse)
				r.asking, err = s.run(ctx, b)
			}
		}
		if err = errors.Join(err, stop()); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// startBusy starts processes that do nothing but compute, and returns what ends them.
func startBusy(ctx context.Context, n int) (stop func() error, err error) {
	var all []*exec.Cmd
	for range n {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err = cmd.Start(); err != nil {
			break
		}
		all = append(all, cmd)
	}
	return func() (err error) {
		for _, cmd := range all {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		}
		return err
	}, err
}

// ratio compares the pairs of a scenario. more is how much longer the pair of limpet-ipam takes at the median.
func (p scenarioResult) ratio() float64 { return measure.Ratio(p.limpet.pair(), p.hostLocal.pair()) }

func (p scenarioResult) more() time.Duration {
	return p.limpet.pair().Median() - p.hostLocal.pair().Median()
}

func (r report) disturbedRows(w *strings.Builder) {
	if len(r.disturbed) == 0 {
		return
	}
	w.WriteString("\n## On a slow disk, and beside busy processes\n\nADD and DEL together with an empty pool, in milliseconds, median / slowest. On the slow disk strace delays the end of each flush, and takes its own time in each process. host-local flushes nothing.\n\n| beside | pods | host-local | limpet-ipam | ratio | limpet-ipam takes longer, ms |\n|---|---|---|---|---|---|\n")
	for _, d := range r.disturbed {
		for _, s := range []struct {
			pods string
			scenarioResult
		}{{"ask for nothing", d.plain}, {"ask", d.asking}} {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %.3g | %.2f |\n", d, s.pods, s.hostLocal.pair(), s.limpet.pair(), s.ratio(), float64(s.more().Microseconds())/1000)
		}
	}
}
