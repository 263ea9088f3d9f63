package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/limpet-io/limpet/test/bench/measure"
)

var errNotReady = errors.New("not ready")

// process is a running controller.
type process struct {
	cmd         *exec.Cmd
	log         string
	health      string
	webhookPort int
	ready       time.Duration // from its start
}

// startController runs the controller as the Deployment does, and waits until it is ready.
func (b *bench) startController(ctx context.Context) error {
	ports, err := measure.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return err
	}
	p := &process{log: filepath.Join(b.dir, "controller.log"), webhookPort: ports[0], health: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	p.cmd = exec.CommandContext(ctx, b.controller, fmt.Sprintf("--webhook-port=%d", p.webhookPort), "--health-address="+p.health,
		"--metrics-address=0", "--dns-names=localhost", "--cert-dir="+filepath.Join(b.dir, "certificate"))
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOMEMLIMIT=400MiB")
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("start controller: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := b.pointConversion(ctx, p.webhookPort); err != nil {
		return fmt.Errorf("point conversion at the controller: %w", err)
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start controller: %w", err)
	}
	b.controlled = p
	if err := poll(ctx, time.Minute, p.askReady); err != nil {
		return fmt.Errorf("wait for the controller: %w", err)
	}
	p.ready = time.Since(begin)
	if err := b.mountCertificate(ctx); err != nil {
		return err
	}
	if err := poll(ctx, longestWait, b.askFormer); err != nil {
		return fmt.Errorf("have an object converted: %w", err)
	}
	return nil
}

// mountCertificate writes the controller's Secret into its directory, as the kubelet does. A
// controller that finds nothing there ends after some minutes.
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

// kubeconfig makes the controller who it is in a cluster, with no more rights than it
// has there.
func (b *bench) kubeconfig() (string, error) {
	path := filepath.Join(b.dir, "kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	user, err := b.server.AddUser(envtest.User{Name: account, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace,
	}}, nil)
	if err != nil {
		return "", fmt.Errorf("make the controller's account: %w", err)
	}
	config := user.Config()
	c := clientcmdapi.NewConfig()
	c.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	c.CurrentContext = "bench"
	return path, clientcmd.WriteToFile(*c, path)
}

func (p *process) askReady(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // nothing in it is read
	if resp.StatusCode != http.StatusOK {
		return errNotReady
	}
	return nil
}

// stop ends the process as a kubelet does.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop controller: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop controller: %w", err)
	}
	return nil
}

// memory returns the resident memory now, and the highest so far, in bytes.
func (p *process) memory() (now, highest int64, err error) { return measure.Memory(p.cmd.Process.Pid) }

func (p *process) lastLines() []byte { return measure.LastLines(p.log) }

// longestWait is the bound for each change that the cluster makes.
const longestWait = 3 * time.Minute

// poll asks until there is no error, or returns the last one.
func poll(ctx context.Context, bound time.Duration, ask func(context.Context) error) error {
	return measure.Poll(ctx, bound, 20*time.Millisecond, ask)
}
