package serving_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/platform/serving"
)

// A certificate that comes from files is used as soon as the files are there, and replaced
// with them. Files that cannot be used leave the certificate in use.
func TestACertificateFollowsItsFiles(t *testing.T) {
	dir, at := t.TempDir(), clocktesting.NewFakePassiveClock(time.Now())
	var certificate serving.Certificate
	certificate.Read(dir, at, logr.Discard())
	var config tls.Config
	certificate.Configure(&config)
	registry := prometheus.NewRegistry()
	certificate.Show(registry)
	serves := func(what string, want []byte) {
		t.Helper()
		pair, err := config.GetCertificate(nil)
		ready := certificate.Ready(nil)
		switch {
		case want == nil && (err == nil || ready == nil):
			t.Errorf("%s: served (ready: %v), want no certificate", what, ready)
		case want != nil && (err != nil || ready != nil):
			t.Errorf("%s: %v, ready: %v", what, err, ready)
		case want != nil && !bytes.Equal(pair.Certificate[0], want):
			t.Errorf("%s: another certificate is served", what)
		}
		ends := 0.0
		if leaf, err := x509.ParseCertificate(want); err == nil {
			ends = float64(leaf.NotAfter.Unix())
		}
		shown, err := registry.Gather()
		if err != nil || len(shown) != 1 || shown[0].GetMetric()[0].GetGauge().GetValue() != ends {
			t.Errorf("%s: the metric of its end: %v, %v; want %f", what, err, shown, ends)
		}
	}
	later := func() { at.SetTime(at.Now().Add(11 * time.Second)) }

	serves("without files", nil)
	first := writePair(t, dir, 1)
	serves("files that are new", nil)
	later()
	serves("files that are there", first)
	second := writePair(t, dir, 2)
	serves("files that are replaced now", first)
	later()
	serves("files that were replaced", second)
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	later()
	serves("files that are damaged", second)
	third := writePair(t, dir, 3)
	later()
	serves("files that are sound again", third)
}

// writePair writes a certificate with its key, and returns it as it is sent to clients.
func writePair(t *testing.T, dir string, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
