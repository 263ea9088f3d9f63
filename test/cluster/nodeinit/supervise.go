package nodeinit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ServiceDir holds files named after a service: with Running behind the name while it
// runs, its PID in it; and with Stopped behind it, made by others, to keep it down.
const (
	ServiceDir = "/run/limpet-node"
	Running    = ".pid"
	Stopped    = ".stopped"
)

const path = "/limpet/kubernetes:/limpet/containerd:/limpet/crio:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// service is a program that a node keeps running.
type service struct {
	name string
	argv []string
}

// services lists them in the order in which they start.
func services(c Config) []service {
	return []service{
		runtimes[c.Runtime].service,
		{"kubelet", append([]string{
			"kubelet", "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
			"--root-dir=/var/lib/kubelet", "--oom-score-adj=0", "--cert-dir=/var/lib/kubelet/pki",
		}, c.KubeletArgs...)},
		{"kube-proxy", []string{"kube-proxy", "--config=/etc/kubernetes/kube-proxy.yaml"}},
	}
}

// Services lists the names of what a node with a runtime keeps running, the runtime first.
func Services(runtime string) []string {
	var names []string
	for _, s := range services(Config{Runtime: runtime}) {
		names = append(names, s.name)
	}
	return names
}

// supervisor keeps the services of a node running and buries orphans: it is the
// node's process 1.
type supervisor struct {
	config Config

	lock  sync.Mutex
	exits map[int]chan struct{}
}

func newSupervisor(c Config) *supervisor {
	return &supervisor{config: c, exits: map[int]chan struct{}{}}
}

func (s *supervisor) run() error {
	if err := os.MkdirAll(ServiceDir, 0o755); err != nil {
		return fmt.Errorf("make service directory: %w", err)
	}
	if err := os.Setenv("PATH", path); err != nil { // programs are looked up in it, too
		return fmt.Errorf("set PATH: %w", err)
	}
	go s.reap()
	all := services(s.config)
	go s.keep(all[0])
	awaitSocket(Socket(s.config.Runtime))
	if err := runtimes[s.config.Runtime].images(s); err != nil {
		return err
	}
	for _, v := range all[1:] {
		go s.keep(v)
	}
	select {}
}

// keep runs a service forever, except while it is to be stopped.
func (s *supervisor) keep(v service) {
	for {
		if !stopped(v) {
			s.once(v)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func stopped(v service) bool {
	_, err := os.Stat(filepath.Join(ServiceDir, v.name+Stopped))
	return !errors.Is(err, fs.ErrNotExist)
}

// once runs a program to its end, with its output added to a log of its name.
func (s *supervisor) once(v service) {
	log, err := os.OpenFile("/var/log/"+v.name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintf(os.Stderr, "open log of %s: %v\n", v.name, err)
		return
	}
	defer log.Close()
	cmd := exec.Command(v.argv[0], v.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + path, "HOME=/root"}, log, log
	done, err := s.start(cmd)
	if err != nil {
		fmt.Fprintf(log, "start %s: %v\n", v.name, err)
		return
	}
	pidFile := filepath.Join(ServiceDir, v.name+Running)
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		fmt.Fprintf(log, "note PID of %s: %v\n", v.name, err)
	}
	defer os.Remove(pidFile) //nolint:errcheck // it may not have been written
	for asked := false; ; {
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
			if !asked && stopped(v) {
				_ = cmd.Process.Signal(unix.SIGTERM) // it may have ended just now
				asked = true
			}
		}
	}
}

// start starts a program; what it returns is closed when the program has ended.
func (s *supervisor) start(cmd *exec.Cmd) (<-chan struct{}, error) {
	s.lock.Lock() // so that reap does not bury it before it is known
	defer s.lock.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	s.exits[cmd.Process.Pid] = done
	return done, nil
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

func awaitSocket(socket string) {
	for {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close() // it was only a probe
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// importImages loads every archive. What is loaded already costs little.
func (s *supervisor) importImages() error {
	archives, err := filepath.Glob("/limpet/images/*.tar")
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	slices.Sort(archives)
	for _, a := range archives {
		s.once(service{"import", []string{"ctr", "-n", "k8s.io", "images", "import", a}})
	}
	return nil
}
