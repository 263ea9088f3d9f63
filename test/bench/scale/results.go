package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// results is what scenes found, of this run and of earlier ones.
type results struct {
	Machine  measure.Machine
	Size     scale
	Took     map[string]time.Duration
	Memory   *memory
	Recorded *memory
	Work     *work
	Agents   *agentWork
}

// readResults reads what earlier runs found.
func readResults(path string) (*results, error) {
	r := &results{Took: map[string]time.Duration{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read results of earlier runs: %w", err)
	}
	return r, nil
}

func (r *results) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
