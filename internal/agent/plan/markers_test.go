package plan_test

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

func TestMarkersToRemove(t *testing.T) {
	old := &fstest.MapFile{ModTime: now.Wall.Add(-61 * time.Minute)}
	dir := fstest.MapFS{
		"killed":    old,
		"waiting":   {ModTime: now.Wall.Add(-59 * time.Minute)},
		"notes":     {ModTime: old.ModTime, Data: []byte("not a marker")},
		"link":      {ModTime: old.ModTime, Mode: fs.ModeSymlink},
		"directory": {ModTime: old.ModTime, Mode: fs.ModeDir},
	}
	var files []fs.FileInfo
	for name := range dir {
		info, err := dir.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
	}
	if got := plan.MarkersToRemove(files, now.Wall); !slices.Equal(got, []string{"killed"}) {
		t.Errorf("got %v, want the empty file that is older than an hour", got)
	}
}
