package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Earlier reads what earlier runs found, as JSON; a file that does not exist changes nothing.
func Earlier(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("read results of earlier runs: %w", err)
	}
	return nil
}
