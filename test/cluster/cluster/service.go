package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/cluster/nodeinit"
)

// StopService stops the runtime (containerd or crio), kubelet or kube-proxy on a node and waits for its
// end. It stays down until StartService, or until the node boots.
func (c *Cluster) StopService(ctx context.Context, node, service string) error {
	dir, err := c.serviceDir(node, service)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, service+nodeinit.Stopped), nil, 0o644); err != nil {
		return fmt.Errorf("stop %s on %s: %w", service, node, err)
	}
	return c.awaitService(ctx, node, dir, service, false)
}

// StartService starts a service that StopService stopped.
func (c *Cluster) StartService(ctx context.Context, node, service string) error {
	dir, err := c.serviceDir(node, service)
	if err != nil {
		return err
	}
	if err := forget(filepath.Join(dir, service+nodeinit.Stopped)); err != nil {
		return fmt.Errorf("start %s on %s: %w", service, node, err)
	}
	return c.awaitService(ctx, node, dir, service, true)
}

// serviceDir returns where a node's first process shows its services and takes
// orders, seen from this machine.
func (c *Cluster) serviceDir(node, service string) (string, error) {
	if all := nodeinit.Services(c.runtime(node)); !slices.Contains(all, service) {
		return "", fmt.Errorf("service %q: there are %s", service, strings.Join(all, ", "))
	}
	pid, err := c.firstProcess(node)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/root%s", pid, nodeinit.ServiceDir), nil
}

func (c *Cluster) awaitService(ctx context.Context, node, dir, service string, running bool) error {
	err := poll(ctx, 2*time.Minute, func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(dir, service+nodeinit.Running))
		if errors.Is(err, fs.ErrNotExist) {
			return !running, nil
		}
		return running, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s on %s: %w", service, node, err)
	}
	return nil
}

// Status tells of one process of a cluster whether it runs.
type Status struct {
	// Name is a component of the control plane or a node.
	Name string
	// PID is its process on this machine; 0 when it does not run.
	PID int
	// Services are what runs on a node, and whether it does.
	Services map[string]bool
}

// Status tells what runs, the control plane first.
func (c *Cluster) Status() []Status {
	var all []Status
	for _, name := range []string{string(Etcd), string(APIServer), string(ControllerManager), string(Scheduler), "forwarder"} {
		all = append(all, Status{Name: name, PID: c.procs.pid(name)})
	}
	for _, node := range c.Nodes() {
		s := Status{Name: node, PID: c.procs.pid(node), Services: map[string]bool{}}
		for _, service := range nodeinit.Services(c.runtime(node)) {
			dir, err := c.serviceDir(node, service)
			if err == nil {
				_, err = os.Stat(filepath.Join(dir, service+nodeinit.Running))
			}
			s.Services[service] = err == nil
		}
		all = append(all, s)
	}
	return all
}
