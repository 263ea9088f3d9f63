package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
)

// asker is a client that runs as a process of its own in the network namespace of a node, and so uses kube-proxy.
type asker struct {
	input   io.Closer
	targets *json.Encoder

	mutex sync.Mutex
	asked map[string][]answers.Asked // by the key of the target
}

// startAsker starts a client, and cancels when the client ends.
func startAsker(ctx context.Context, cancel context.CancelCauseFunc, netns string, interval time.Duration) (*asker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+netns, self, askVerb, interval.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	a := &asker{input: in, targets: json.NewEncoder(in), asked: map[string][]answers.Asked{}}
	go func() {
		err := a.read(json.NewDecoder(out))
		_ = cmd.Wait() // the end of its output tells enough
		cancel(fmt.Errorf("the client ended: %w", err))
	}()
	return a, nil
}

func (a *asker) read(lines *json.Decoder) error {
	for {
		var one answers.Asked
		if err := lines.Decode(&one); err != nil {
			return err
		}
		a.mutex.Lock()
		a.asked[one.Key] = append(a.asked[one.Key], one)
		a.mutex.Unlock()
	}
}

// ask adds targets that are not asked already.
func (a *asker) ask(targets []answers.Target) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, t := range targets {
		if a.asked[t.Key] != nil {
			continue
		}
		a.asked[t.Key] = []answers.Asked{}
		if err := a.targets.Encode(t); err != nil {
			return fmt.Errorf("tell the client: %w", err)
		}
	}
	return nil
}

// silent returns the keys of the targets that did not answer all requests which began in the last seconds before a time.
func (a *asker) silent(targets []answers.Target, before time.Time) []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var keys []string
	for _, t := range targets {
		last := a.asked[t.Key]
		recent := slices.DeleteFunc(slices.Clone(last[max(0, len(last)-100):]), func(one answers.Asked) bool {
			return one.At.Before(before.Add(-2*time.Second)) || one.At.After(before)
		})
		if len(recent) == 0 || slices.ContainsFunc(recent, func(one answers.Asked) bool { return !one.Answered }) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}
