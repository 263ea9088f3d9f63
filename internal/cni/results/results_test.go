package results

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// FuzzCacheFile reads any file that may lie in libcni's cache. An attachment that comes of it
// can be stored, so that no file stops a recovery.
func FuzzCacheFile(f *testing.F) {
	f.Add([]byte(`{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","networkName":"n","netns":"/run/netns/x","config":"e30=","cniArgs":[["K8S_POD_NAMESPACE","ns"],["K8S_POD_NAME","web-0"],["K8S_POD_UID","u"]],"capabilityArgs":{"io.kubernetes.cri.pod-annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}},"result":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"},{"address":"fd00::2/64"}]}}`))
	f.Add([]byte(`{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","networkName":"n","result":{"ip4":{"ip":"10.1.0.2/24"},"ip6":{"ip":"fd00::2/64"}}}`))
	f.Add([]byte(`{"kind":"cniCacheV1","containerId":7,"ifName":"eth0","networkName":"n","cniArgs":{},"capabilityArgs":[],"result":{"ips":[{"address":"::ffff:10.1.0.2/120"},{"address":7}]}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		c, ok := parse(data, time.Hour)
		if !ok {
			return
		}
		a := c.Attachment
		if len(a.Addresses) == 0 || a.ID.IsNetNSPlaceholder() || a.Retain < 0 || a.Retain > time.Hour {
			t.Fatalf("%+v", a)
		}
		store := persistence.New(persistence.Options{Dir: dir})
		if err := store.Update(t.Context(), func(tx *persistence.Tx) error {
			if err := tx.PutAttachment(a); err != nil {
				return err
			}
			back, found, err := tx.Attachment(a.ID)
			if err == nil && (!found || !cmp.Equal(back.Addresses, a.Addresses, cmp.Comparer(sameAddr))) {
				t.Errorf("stored %+v, found %t %+v", a, found, back)
			}
			if err != nil {
				return err
			}
			return persistence.ErrUnchanged
		}); err != nil {
			t.Errorf("store %+v: %v", a, err)
		}
	})
}

// TestCacheSkipsOtherFiles has everything in the directory that is no attachment.
func TestCacheSkipsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	good := `{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","networkName":"n","capabilityArgs":{"io.kubernetes.cri.pod-annotations":7},"result":{"ips":[{"address":"10.1.0.2/24"}]}}`
	for name, content := range map[string]string{
		"n-c-eth0": good, "empty": "", "half": good[:60], "another kind": `{"kind":"other"}`, "no address": `{"kind":"cniCacheV1","containerId":"c","ifName":"eth0","networkName":"n"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read([]string{dir}, time.Hour)
	if err != nil || len(all) != 1 || all[0].Attachment.ID.ContainerID != "c" {
		t.Errorf("got %+v, %v", all, err)
	}
	if none, err := Read([]string{filepath.Join(dir, "nowhere")}, time.Hour); err != nil || len(none) != 0 {
		t.Errorf("a cache that is not there: %v, %v", none, err)
	}
}

func sameAddr(a, b netip.Addr) bool { return a == b }
