package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errLimit is returned for a value that is no limit.
var errLimit = errors.New(`must be a number of pods from 1, or a percentage from "0%" to "100%"`)

// LimitOf returns how many pods of a StatefulSet may be on their way at a time. Percentages are
// rounded down; at least one pod is always allowed.
func LimitOf(text string, replicas int32) (int, error) {
	if strings.HasSuffix(text, "%") {
		percent, err := percentOf(text)
		return max(int(int64(max(replicas, 0))*percent/100), 1), err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 1, fmt.Errorf("%.32q %w", text, errLimit)
	}
	return int(n), nil
}

// ScaleOutInput are the pods of a StatefulSet that grows.
type ScaleOutInput struct {
	// Limit is how many pods may be on their way.
	Limit int
	// MinReady is how long a pod must be Ready to be available.
	MinReady time.Duration
	// Pods that the StatefulSet wants.
	Pods []Pod
	Now  time.Time
}

// Pod is one pod of a StatefulSet.
type Pod struct {
	Name    string
	Ordinal int64
	// Gated tells that the pod waits behind the gate.
	Gated bool
	// Ended tells that the pod terminates or has failed: its successor starts soon.
	Ended bool
	// Ready tells that the pod is Ready, and Since since when.
	Ready bool
	Since time.Time
}

// ScaleOutDecision says which gates are opened.
type ScaleOutDecision struct {
	// Open are the names of pods, the lowest ordinal first.
	Open []string
	// Waiting is how many gates stay closed.
	Waiting int
	// Again is when a Ready pod becomes available; 0 for never.
	Again time.Duration
}

// ScaleOut decides which gates are opened. Each pod that is not available takes one of the limit,
// unless it waits behind the gate.
func ScaleOut(in ScaleOutInput) (d ScaleOutDecision) {
	free := in.Limit
	var gated []Pod
	for _, p := range in.Pods {
		switch left := in.MinReady - in.Now.Sub(p.Since); {
		case p.Gated && !p.Ended:
			gated = append(gated, p)
		case p.Ended || !p.Ready:
			free--
		case left > 0:
			free--
			if d.Again == 0 || left < d.Again {
				d.Again = left
			}
		}
	}
	slices.SortFunc(gated, func(a, b Pod) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	for i, p := range gated {
		if i >= free {
			break
		}
		d.Open = append(d.Open, p.Name)
	}
	d.Waiting = len(gated) - len(d.Open)
	if d.Waiting == 0 {
		d.Again = 0
	}
	return d
}
