package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/test/cluster/pki"
)

// keys holds the two authorities of a running Up; nodes are made by it only.
type keys struct {
	ca *pki.Authority
}

// makeKeys writes what the control plane needs into dir.
func makeKeys(dir, apiOutside string) (*keys, error) {
	ca, err := pki.NewAuthority("limpet-cluster", time.Now())
	if err != nil {
		return nil, err
	}
	front, err := pki.NewAuthority("limpet-cluster-front-proxy", time.Now())
	if err != nil {
		return nil, err
	}
	tokens, err := pki.KeyPair()
	if err != nil {
		return nil, err
	}
	inside := "https://" + controlIP4 + ":" + apiPort
	errs := []error{
		os.WriteFile(filepath.Join(dir, "ca.crt"), ca.Cert(), 0o644),
		os.WriteFile(filepath.Join(dir, "front-ca.crt"), front.Cert(), 0o644),
		tokens.Write(dir, "tokens"),
		write(ca, dir, "apiserver", pki.Subject{Name: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain, "localhost",
			"127.0.0.1", controlIP4, controlIP6, "10.96.0.1",
		}}),
		write(ca, dir, "kubelet-client", pki.Subject{Name: "kube-apiserver-kubelet-client", Group: "system:masters"}),
		write(front, dir, "front-proxy", pki.Subject{Name: "front-proxy-client"}),
		kubeconfig(ca, filepath.Join(dir, "admin.kubeconfig"), apiOutside, pki.Subject{Name: "admin", Group: "system:masters"}),
		kubeconfig(ca, filepath.Join(dir, "kcm.kubeconfig"), inside, pki.Subject{Name: "system:kube-controller-manager"}),
		kubeconfig(ca, filepath.Join(dir, "scheduler.kubeconfig"), inside, pki.Subject{Name: "system:kube-scheduler"}),
	}
	return &keys{ca: ca}, errors.Join(errs...)
}

// node writes what a node's kubelet and kube-proxy need.
func (k *keys) node(i int, dir string) error {
	inside := "https://" + controlIP4 + ":" + apiPort
	name := nodeName(i)
	kubelet := pki.Subject{Name: "system:node:" + name, Group: "system:nodes", Hosts: []string{name, nodeIP4(i), nodeIP6(i), "127.0.0.1"}}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "pki/ca.crt"), k.ca.Cert(), 0o644),
		write(k.ca, filepath.Join(dir, "pki"), "kubelet", kubelet),
		kubeconfig(k.ca, filepath.Join(dir, "kubelet.kubeconfig"), inside, kubelet),
		kubeconfig(k.ca, filepath.Join(dir, "kube-proxy.kubeconfig"), inside, pki.Subject{Name: "system:kube-proxy"}),
	)
}

func write(a *pki.Authority, dir, file string, s pki.Subject) error {
	pair, err := a.Sign(s)
	if err != nil {
		return err
	}
	return pair.Write(dir, file)
}

func kubeconfig(a *pki.Authority, path, server string, s pki.Subject) error {
	pair, err := a.Sign(s)
	if err != nil {
		return err
	}
	return a.Kubeconfig(path, server, pair)
}
