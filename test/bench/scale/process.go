package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/test/bench/measure"
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

// limitHeap sets GOMEMLIMIT of the controllers, by default to what docs/operate/operations.md advises for a large cluster by
// its recorded pods.
func (b *bench) limitHeap(records int) string {
	b.heapLimit = b.size.HeapLimit
	switch {
	case b.heapLimit != "":
	case records > 60_000:
		b.heapLimit = "1800MiB"
	case records > 30_000:
		b.heapLimit = "520MiB"
	default: // as in deploy/controller/deployment.yaml
		b.heapLimit = "400MiB"
	}
	return b.heapLimit
}

// startController runs the controller as the Deployment does, and waits until it is ready.
func (b *bench) startController(ctx context.Context) (*process, error) {
	ports, err := measure.FreePorts(ctx, 3)
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
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOMEMLIMIT="+b.heapLimit)
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
func (p *process) memory() (now, highest int64, err error) { return measure.Memory(p.cmd.Process.Pid) }

// processor returns the processor time of the process so far.
func (p *process) processor() (time.Duration, error) { return measure.Processor(p.cmd.Process.Pid) }

func (p *process) lastLines() []byte { return measure.LastLines(p.log) }

// longestWait is the bound for each change that the cluster makes.
const longestWait = 5 * time.Minute

// poll asks until there is no error, or returns the last one.
func poll(ctx context.Context, bound time.Duration, ask func(context.Context) error) error {
	return measure.Poll(ctx, bound, 50*time.Millisecond, ask)
}
