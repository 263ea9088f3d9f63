package nodeinit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// StopDir holds a file for each service that is to stay down.
const StopDir = "/run/limpet-node"

const containerdSocket = "/run/containerd/containerd.sock"

// supervisor keeps the services of a node running and buries orphans: it is the
// node's process 1.
type supervisor struct {
	config Config
	env    []string

	lock  sync.Mutex
	exits map[int]chan struct{}
}

func newSupervisor(c Config) *supervisor {
	return &supervisor{
		config: c, exits: map[int]chan struct{}{},
		env: []string{"PATH=/limpet/kubernetes:/limpet/containerd:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
	}
}

func (s *supervisor) run() error {
	if err := os.MkdirAll(StopDir, 0o755); err != nil {
		return fmt.Errorf("make stop directory: %w", err)
	}
	go s.reap()
	s.setPath()
	go s.keep("containerd", "containerd", "--config", "/etc/containerd/config.toml")
	s.awaitSocket()
	if err := s.importImages(); err != nil {
		return err
	}
	go s.keep("kubelet", append([]string{
		"kubelet", "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
		"--root-dir=/var/lib/kubelet", "--oom-score-adj=0", "--cert-dir=/var/lib/kubelet/pki",
	}, s.config.KubeletArgs...)...)
	go s.keep("kube-proxy", "kube-proxy", "--config=/etc/kubernetes/kube-proxy.yaml")
	select {}
}

// setPath makes exec look programs up where the services will.
func (s *supervisor) setPath() {
	_ = os.Setenv("PATH", s.env[0][len("PATH="):]) // cannot fail with a valid name
}

// keep runs a service for ever, except while its stop file is there.
func (s *supervisor) keep(service string, argv ...string) {
	for {
		if _, err := os.Stat(filepath.Join(StopDir, service)); errors.Is(err, os.ErrNotExist) {
			s.once("/var/log/"+service+".log", argv...)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// once runs a program to its end, with its output added to a log file.
func (s *supervisor) once(logFile string, argv ...string) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	s.lock.Lock()
	if err := cmd.Start(); err != nil {
		s.lock.Unlock()
		fmt.Fprintf(log, "start %s: %v\n", argv[0], err)
		return
	}
	done := make(chan struct{})
	s.exits[cmd.Process.Pid] = done
	s.lock.Unlock()
	<-done
}

// reap waits for every child, those that containers left behind among them.
func (s *supervisor) reap() {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil { // no child at the moment
			time.Sleep(20 * time.Millisecond)
			continue
		}
		s.lock.Lock()
		if done, ours := s.exits[pid]; ours {
			close(done)
			delete(s.exits, pid)
		}
		s.lock.Unlock()
	}
}

func (s *supervisor) awaitSocket() {
	for {
		if c, err := net.Dial("unix", containerdSocket); err == nil {
			_ = c.Close() // it was only a probe
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// importImages loads every archive that this node has not loaded yet.
func (s *supervisor) importImages() error {
	archives, err := filepath.Glob("/limpet/images/*.tar")
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	slices.Sort(archives)
	for _, a := range archives {
		s.once("/var/log/import.log", "ctr", "-n", "k8s.io", "images", "import", a)
	}
	return nil
}
