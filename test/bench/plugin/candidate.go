package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
)

// network is the name of the CNI network.
const network = "bench"

// candidate is one of the two plugins, with a state of its own.
type candidate struct {
	name   string
	plugin string // path of the binary
	dir    string // ipam.dataDir
	ranges string // one range
	// asks makes pods ask for a reservation.
	asks bool
	// through is the program that runs the plugin; none when empty.
	through []string
	// had are the addresses of pods that ask, by name: a DEL without the result of its ADD undoes the ADD.
	had sync.Map
	// fill attaches n addresses in the state.
	fill func(ctx context.Context, dir string, n int) error
}

// subnet has room for 65 000 addresses.
const subnet = `{"subnet":"10.1.0.0/16"}`

// largeSubnet has room for 1 000 000 addresses.
const largeSubnet = `{"subnet":"10.0.0.0/12"}`

func newHostLocal(b cniexec.Binaries, dir string) *candidate {
	return &candidate{name: "host-local", plugin: b.HostLocal(), dir: filepath.Join(dir, "host-local"), ranges: subnet, fill: fillHostLocal}
}

func newLimpet(b cniexec.Binaries, dir string) *candidate {
	return &candidate{name: "limpet-ipam", plugin: b.Limpet, dir: filepath.Join(dir, "limpet-ipam"), ranges: subnet, fill: fillLimpet}
}

// call returns the call of a verb for a pod, as a Kubernetes runtime makes it. The log of limpet-ipam is beside the state, not in the machine's directory.
func (c *candidate) call(verb, pod string) cniexec.Call {
	return cniexec.Call{
		Through: c.through, Plugin: c.plugin, Verb: verb, Container: "sandbox-" + pod, IfName: "eth0", NetNS: "/run/netns/cni-" + pod, Path: filepath.Dir(c.plugin),
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=sandbox-%s;K8S_POD_UID=uid-%s", pod, pod, pod),
		Stdin: fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":%q,"type":"ptp","ipam":{"type":"x","dataDir":%q,"logFile":%q,"ranges":[[%s]],"routes":[{"dst":"0.0.0.0/0"}]}%s}`,
			network, c.dir, filepath.Join(c.dir, "ipam.log"), c.ranges, c.more(verb, pod)),
	}
}

// more returns what a runtime adds to the configuration for a pod that asks.
func (c *candidate) more(verb, pod string) string {
	if !c.asks {
		return ""
	}
	more := `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"` + reservation.RetainAnnotation + `":"60"}}`
	if had, ok := c.had.Load(pod); verb == "DEL" && ok {
		more += fmt.Sprintf(`,"prevResult":{"cniVersion":"1.0.0","ips":[{"address":%q}]}`, had)
	}
	return more
}

// note remembers the address of a pod that asks.
func (c *candidate) note(pod string, answer []byte) error {
	var result struct {
		IPs []struct {
			Address string `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(answer, &result); err != nil || len(result.IPs) != 1 {
		return fmt.Errorf("result %s: %w", answer, err)
	}
	c.had.Store(pod, result.IPs[0].Address)
	return nil
}

// do runs a verb and returns its duration.
func (c *candidate) do(ctx context.Context, verb, pod string) (time.Duration, error) {
	call := c.call(verb, pod)
	begin := time.Now()
	a, err := call.Run(ctx)
	took := time.Since(begin)
	if err == nil && a.Exit != 0 {
		err = fmt.Errorf("%s %s %s: exit %d, %s%s", c.name, verb, pod, a.Exit, a.Stdout, a.Stderr)
	}
	if err == nil && verb == "ADD" && c.asks {
		err = c.note(pod, a.Stdout)
	}
	return took, err
}

// pair runs an ADD and the DEL of the same pod, and returns the sum of the durations.
func (c *candidate) pair(ctx context.Context, pod string) (time.Duration, error) {
	added, err := c.do(ctx, "ADD", pod)
	if err != nil {
		return 0, err
	}
	ended, err := c.do(ctx, "DEL", pod)
	return added + ended, err
}

// attachAgain undoes the ADD of a pod whose address is not known, and repeats it.
func (c *candidate) attachAgain(ctx context.Context, pod string) error {
	for _, verb := range []string{"DEL", "ADD"} {
		if _, err := c.do(ctx, verb, pod); err != nil {
			return err
		}
	}
	return nil
}

// startTwice starts two processes that do nothing, as a pair does.
func (c *candidate) startTwice(ctx context.Context, pod string) (time.Duration, error) {
	first, err := c.do(ctx, "VERSION", pod)
	if err != nil {
		return 0, err
	}
	second, err := c.do(ctx, "VERSION", pod)
	return first + second, err
}
