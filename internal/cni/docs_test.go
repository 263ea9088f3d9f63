package cni_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// page returns the text of docs/use/annotations.md.
func page(t *testing.T) string {
	t.Helper()
	return pages(t, "annotations.md")
}

func pages(t *testing.T, names ...string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("../../docs/use", name))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	return text.String()
}

// TestEveryKeyIsDocumented compares the keys of the page with the decoded keys, both ways.
func TestEveryKeyIsDocumented(t *testing.T) {
	text := page(t)
	keys := keysOf(netconf.Keys(), "")
	for _, key := range keys {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("%s is not documented", key)
		}
	}
	keys = append(keys, "ipam.type") // the interface plugin reads it
	for _, m := range regexp.MustCompile("(?m)^\\| `(ipam\\.\\w+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(keys, m[1]) {
			t.Errorf("%s is documented, and nothing reads it", m[1])
		}
	}
}

// keysOf lists the keys that a configuration is decoded from. The keys of a
// range are the same everywhere.
func keysOf(of reflect.Type, under string) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for f := range of.Fields() {
		tag := f.Tag.Get("json")
		inside := keysOf(f.Type, strings.TrimPrefix(under+"."+tag, "."))
		switch {
		case f.Anonymous:
			keys = append(keys, keysOf(f.Type, under)...)
		case tag == "": // a section that is decoded by its own name
			keys = append(keys, keysOf(f.Type, strings.ToLower(f.Name[:1])+f.Name[1:])...)
		case len(inside) > 0:
			keys = append(keys, inside...)
		default:
			keys = append(keys, strings.TrimPrefix(under+"."+tag, "."))
		}
	}
	return keys
}

func TestDefaultsAreAsDocumented(t *testing.T) {
	text := page(t)
	for key, want := range map[string]any{
		"dataDir":            persistence.DefaultDir,
		"maxReservation":     `"24h"`,
		"maxReservedPercent": reservation.DefaultSharePercent,
		"predecessorWait":    fmt.Sprintf(`"%.0fs"`, netconf.DefaultPredecessorWait.Seconds()),
		"releaseDelay":       fmt.Sprintf(`"%.0fs"`, reservation.DefaultReleaseDelay.Seconds()),
		"addWait":            fmt.Sprintf(`"%.0fs"`, netconf.DefaultAddWait.Seconds()),
		"lockWait":           fmt.Sprintf(`"%.0fs"`, persistence.DefaultLockWait.Seconds()),
		"logFile":            fmt.Sprintf("%q", cni.DefaultLogFile),
		"logMaxBytes":        netconf.DefaultLogMaxBytes,
	} {
		row := regexp.MustCompile("(?m)^\\| `ipam\\." + key + "` \\|[^|]*\\| `([^`]*)` \\|").FindStringSubmatch(text)
		if row == nil || row[1] != fmt.Sprint(want) {
			t.Errorf("ipam.%s: the page says %q, the default is %v", key, row, want)
		}
	}
	if h := reservation.DefaultMaxRetain.Hours(); h != 24 {
		t.Errorf("ipam.maxReservation is %vh by default", h)
	}
}

// TestEveryAnnotationIsDocumented looks for names of annotations, labels and gates in the
// source.
func TestEveryAnnotationIsDocumented(t *testing.T) {
	text := pages(t, "annotations.md", "budgets.md", "spread.md")
	name := regexp.MustCompile(`"((?:kruise\.io|limpet\.dev|io\.kubernetes\.cri)/[a-z-]+)"`)
	found := 0
	for _, room := range []string{"../../pkg", "../../internal"} {
		err := filepath.WalkDir(room, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(source), -1) {
				found++
				if !strings.Contains(text, "`"+m[1]+"`") {
					t.Errorf("%s, in %s, is not documented", m[1], path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("found %d names: the test tests little", found)
	}
}
