package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/limpet-io/limpet/test/cluster/pki"
)

func TestSignedCertificatesVerifyWhereTheyServe(t *testing.T) {
	now := time.Now()
	ca, err := pki.NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Sign(pki.Subject{Name: "system:node:n1", Group: "system:nodes", Hosts: []string{"n1", "172.30.0.11", "fd00:30::11"}})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert())
	for _, host := range []string{"n1", "172.30.0.11", "fd00:30::11"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "n2", Roots: roots}); err == nil {
		t.Error("the certificate serves for a host that it does not name")
	}
	strangers := x509.NewCertPool()
	strangers.AppendCertsFromPEM(other.Cert())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: strangers}); err == nil {
		t.Error("another authority vouches for the certificate")
	}
	if got := cert.Subject.Organization; len(got) != 1 || got[0] != "system:nodes" {
		t.Errorf("group = %v", got)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := ca.Kubeconfig(path, "https://127.0.0.1:6443", pair); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil || config.Host != "https://127.0.0.1:6443" {
		t.Errorf("kubeconfig leads to %v, %v", config, err)
	}
}
