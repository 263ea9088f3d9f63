package serving

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// rereadAfter is how long files are not read again. A kubelet replaces mounted files up to
// 90 s after their Secret, so that more haste gains nothing.
const rereadAfter = 10 * time.Second

// files are a certificate and its key that another program writes, as cert-manager does.
type files struct {
	dir    string
	clock  clock.PassiveClock
	logger logr.Logger

	mu   sync.Mutex
	read time.Time
	err  error // of the last reading
}

// Read makes the pair come from tls.crt and tls.key in a directory. They are read when a
// client connects, at most once in ten seconds.
func (c *Certificate) Read(dir string, now clock.PassiveClock, logger logr.Logger) {
	c.files = &files{dir: dir, clock: now, logger: logger}
}

// refresh reads the files if they were not read for some time. Files that cannot be used
// leave the pair as it is.
func (f *files) refresh(pair *atomic.Pointer[tls.Certificate]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if now.Sub(f.read) < rereadAfter {
		return f.err
	}
	f.read = now
	next, err := tls.LoadX509KeyPair(filepath.Join(f.dir, corev1.TLSCertKey), filepath.Join(f.dir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return f.fail(fmt.Errorf("read webhook certificate: %w; remedy: put tls.crt and tls.key into the Secret that is mounted at %s", err, f.dir))
	}
	f.err = nil
	if before := pair.Swap(&next); before == nil || !next.Leaf.Equal(before.Leaf) {
		f.logger.Info("Webhook certificate loaded", "dir", f.dir, "notAfter", next.Leaf.NotAfter)
	}
	return nil
}

// fail logs an error once, because the pair of before may go on to serve.
func (f *files) fail(err error) error {
	if f.err == nil || f.err.Error() != err.Error() {
		f.logger.Error(err, "Webhook certificate is not used")
	}
	f.err = err
	return err
}
