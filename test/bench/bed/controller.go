package bed

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

// ErrNotReady says that what a benchmark waits for is not there yet.
var ErrNotReady = errors.New("not ready")

// Controller is a controller that runs as a process.
type Controller struct {
	WebhookPort int
	Metrics     string        // host:port
	Ready       time.Duration // from its start

	cmd         *exec.Cmd
	log, health string
	ended       chan struct{}
	err         error
}

// StartController runs the controller as the Deployment does, with a limit of its heap, and waits until it is ready. A
// controller that is not ready in time is returned as well.
func (b *Bed) StartController(ctx context.Context, log, heapLimit string, bound time.Duration) (*Controller, error) {
	ports, err := measure.FreePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return nil, err
	}
	p := &Controller{
		log: filepath.Join(b.Dir, log), WebhookPort: ports[0], health: fmt.Sprintf("127.0.0.1:%d", ports[1]),
		Metrics: fmt.Sprintf("127.0.0.1:%d", ports[2]), ended: make(chan struct{}),
	}
	p.cmd = exec.CommandContext(ctx, b.Controller, fmt.Sprintf("--webhook-port=%d", p.WebhookPort), "--health-address="+p.health,
		"--metrics-address="+p.Metrics, "--dns-names=localhost", "--cert-dir="+filepath.Join(b.Dir, "certificate"))
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOMEMLIMIT="+heapLimit)
	output, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	defer func() { _ = output.Close() }() // the process has its own
	p.cmd.Stdout, p.cmd.Stderr = output, output
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := measure.Poll(ctx, bound, 20*time.Millisecond, p.askReady); err != nil {
		return p, fmt.Errorf("wait for the controller: %w", err)
	}
	p.Ready = time.Since(begin)
	return p, b.mountCertificate(ctx)
}

// mountCertificate writes the controller's Secret into its directory, as the kubelet does. A controller that finds nothing
// there ends after some minutes.
func (b *Bed) mountCertificate(ctx context.Context) error {
	var secret corev1.Secret
	if err := b.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: SecretName}, &secret); err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	dir := filepath.Join(b.Dir, "certificate")
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

func (p *Controller) askReady(ctx context.Context) error {
	if p.Ended() {
		return fmt.Errorf("the controller ended: %w", p.err)
	}
	_, err := get(ctx, "http://"+p.health+"/readyz")
	return err
}

// Scrape returns the metrics.
func (p *Controller) Scrape(ctx context.Context) ([]byte, error) {
	return get(ctx, "http://"+p.Metrics+"/metrics")
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
		return nil, ErrNotReady
	}
	return text, err
}

// Ended reports whether the process has ended.
func (p *Controller) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Stop ends the process as a kubelet does.
func (p *Controller) Stop() error { return p.End(syscall.SIGTERM) }

// End ends the process with a signal.
func (p *Controller) End(signal os.Signal) error {
	if p.Ended() {
		return nil
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

// Memory returns the resident memory now, and the highest so far, in bytes.
func (p *Controller) Memory() (now, highest int64, err error) {
	return measure.Memory(p.cmd.Process.Pid)
}

// Processor returns the processor time of the process so far.
func (p *Controller) Processor() (time.Duration, error) { return measure.Processor(p.cmd.Process.Pid) }

// Told adds to an error what the controller had to say.
func (p *Controller) Told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the last lines of a controller:\n%s", err, measure.LastLines(p.log))
}
