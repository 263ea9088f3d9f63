package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNotReady = errors.New("not ready")

// process is a running controller.
type process struct {
	cmd                  *exec.Cmd
	log, health, metrics string
	webhookPort          int
	ready                time.Duration // from its start
	ended                chan struct{}
	err                  error
}

// memoryLimit is what docs/operate/operations.md advises for the largest cluster.
const memoryLimit = "GOMEMLIMIT=520MiB"

// startController runs the controller as the Deployment does, and waits until it is ready.
func (b *bench) startController(ctx context.Context) (*process, error) {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := b.kubeconfig(account)
	if err != nil {
		return nil, err
	}
	p := &process{
		log: filepath.Join(b.dir, fmt.Sprintf("controller-%d.log", len(b.controllers))), webhookPort: ports[0],
		health: fmt.Sprintf("127.0.0.1:%d", ports[1]), metrics: fmt.Sprintf("127.0.0.1:%d", ports[2]), ended: make(chan struct{}),
	}
	p.cmd = exec.CommandContext(ctx, b.controller, fmt.Sprintf("--webhook-port=%d", p.webhookPort), "--health-address="+p.health,
		"--metrics-address="+p.metrics, "--dns-names=localhost", "--cert-dir="+filepath.Join(b.dir, "certificate"))
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, memoryLimit)
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.cmd.Stdout, p.cmd.Stderr = log, log
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	b.controllers = append(b.controllers, p)
	if err := poll(ctx, longestWait, p.askReady); err != nil {
		return p, fmt.Errorf("wait for the controller: %w", err)
	}
	p.ready = time.Since(begin)
	return p, b.mountCertificate(ctx)
}

// mountCertificate writes the controller's Secret into its directory, as the kubelet does.
func (b *bench) mountCertificate(ctx context.Context) error {
	var secret corev1.Secret
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: secretName}, &secret); err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	dir := filepath.Join(b.dir, "certificate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("mount certificate: %w", err)
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("mount certificate: %w", err)
		}
	}
	return nil
}

func (p *process) askReady(ctx context.Context) error {
	select {
	case <-p.ended:
		return fmt.Errorf("the controller ended: %w", p.err)
	default:
	}
	_, err := get(ctx, "http://"+p.health+"/readyz")
	return err
}

// get returns the answer of a server of the controller.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is read here
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil, errNotReady
	}
	return text, err
}

// stop ends the process as a kubelet does.
func (p *process) stop() error { return p.end(syscall.SIGTERM) }

func (p *process) end(signal os.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop controller: %w", err)
	}
	<-p.ended
	if p.err != nil && signal == syscall.SIGTERM {
		return fmt.Errorf("stop controller: %w", p.err)
	}
	return nil
}

// memory returns the resident memory now, and the highest so far, in bytes.
func (p *process) memory() (now, highest int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("look at the controller's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64) // other lines have no number
		switch f[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			highest = kib << 10
		}
	}
	return now, highest, nil
}

// processor returns the processor time of the process so far.
func (p *process) processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("look at the controller's time: %w", err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(f[11]) // the kernel writes numbers
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

func (p *process) lastLines() []byte {
	text, _ := os.ReadFile(p.log) // it is a help for a person
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-20):], nil)
}

func freePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all of them at the end, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// longestWait is the bound for each change that the cluster makes.
const longestWait = 5 * time.Minute

// poll asks until there is no error, or returns the last one.
func poll(ctx context.Context, bound time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// wait waits, unless the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
