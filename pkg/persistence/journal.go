package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// The journal has a header and then one frame for each commit since the fold. All numbers are little endian.
//
//	header: magic, fold (1), generation of the fold (8), size of the fold (8), segment size (8), number of segments (4),
//	        a checksum of each segment of the fold (4 each), checksum of the header (4)
//	frame:  length of the payload (4), checksum of what follows (4), checksum of the frame before or of the header (4),
//	        generation (8), payload
//	payload: for each change: bucket (1), length of the key, key, length of the value + 1, value; 0 deletes the key
//
// A frame has the generation that follows that of the frame before, and its checksum. So frames of an earlier use of the
// file do not count, nor those of a write that was torn, nor those behind a frame that was lost with the power: the commit
// in its place may have the same length.
const (
	journalMagic = "limpet journal 1\n"
	framesAt     = 4096 // where the first frame begins
	frameHead    = 4 + 4 + 4 + 8
	// unsyncedAt is a byte of the header without a checksum: 1 after a failed sync. The next commit folds first.
	unsyncedAt = framesAt - 1
	// journalSize is the space that each journal takes at once: commits for some hundred pods when the disk is full.
	journalSize = 256 << 10
	// foldAt is the length of frames at which a commit folds.
	foldAt = 64 << 10
	// mostFrames is more than any journal has: a greater generation is none.
	mostFrames = 1 << 32
	// readAhead is how much of a journal is read at once.
	readAhead = 16 << 10
)

// header says on which fold a journal stands.
type header struct {
	fold       byte // number of the file
	generation uint64
	size       uint64
	segment    uint64
	sums       []uint32
	own        uint32 // checksum of the header
}

func (h header) encode() []byte {
	data := append([]byte(journalMagic), h.fold)
	for _, n := range []uint64{h.generation, h.size, h.segment} {
		data = binary.LittleEndian.AppendUint64(data, n)
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(h.sums)))
	for _, sum := range h.sums {
		data = binary.LittleEndian.AppendUint32(data, sum)
	}
	return binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
}

// headFixed is the length of a header without the checksums.
const headFixed = len(journalMagic) + 1 + 3*8 + 4

// decodeHeader reads a header. Another version counts only with a checksum: a flipped bit must not stop the node.
func decodeHeader(data []byte) (h header, err error) {
	const magic = len("limpet journal ")
	if len(data) < framesAt || string(data[:magic]) != journalMagic[:magic] {
		return h, fmt.Errorf("journal without a header: %w", ErrDamaged)
	}
	count := int(binary.LittleEndian.Uint32(data[headFixed-4:]))
	end := headFixed + 4*count
	switch {
	case count > mostSegments || binary.LittleEndian.Uint32(data[end:]) != crc32.ChecksumIEEE(data[:end]):
		return h, fmt.Errorf("checksum of the journal's header: %w", ErrDamaged)
	case string(data[:len(journalMagic)]) != journalMagic:
		return h, fmt.Errorf("journal %q: install the newer limpet-ipam again: %w", data[:len(journalMagic)-1], ErrNewer)
	case data[len(journalMagic)] > 1:
		return h, fmt.Errorf("journal on fold %d: %w", data[len(journalMagic)], ErrDamaged)
	}
	numbers := data[len(journalMagic)+1:]
	h = header{
		fold: data[len(journalMagic)], generation: binary.LittleEndian.Uint64(numbers),
		size: binary.LittleEndian.Uint64(numbers[8:]), segment: binary.LittleEndian.Uint64(numbers[16:]), own: binary.LittleEndian.Uint32(data[end:]),
	}
	for n := range count {
		h.sums = append(h.sums, binary.LittleEndian.Uint32(data[headFixed+4*n:]))
	}
	return h, nil
}

// journal is an open journal.
type journal struct {
	file *os.File
	header
	last     uint64 // generation of the last frame; that of the fold when there is none
	before   uint32 // checksum of the last frame; that of the header when there is none
	end      int64  // where the next frame begins
	unsynced bool   // a sync has failed
	data     []byte // what was read of the file
	over     bool   // data is the whole file
}

// openJournal opens a journal and calls see with the changes of its frames, in order.
func openJournal(path string, flag int, see func(change)) (*journal, error) {
	return openWith(path, flag, (*journal).readHeader, see)
}

// openFrames opens a journal whose header is damaged. The first frame says on which generation it stands.
func openFrames(path string, see func(change)) (*journal, error) {
	return openWith(path, os.O_RDONLY, (*journal).guessHeader, see)
}

func openWith(path string, flag int, head func(*journal) error, see func(change)) (j *journal, err error) {
	f, err := flock.Open(path, flag, 0)
	if err != nil {
		return nil, err
	}
	j = &journal{file: f, data: make([]byte, 0, framesAt+foldAt+readAhead)}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in place of a journal: %w", info.Mode(), ErrDamaged)
	}
	if err == nil {
		err = head(j)
	}
	if err == nil {
		err = j.readFrames(see)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *journal) readHeader() (err error) {
	if err = j.load(framesAt); err != nil {
		return err
	}
	if j.header, err = decodeHeader(j.data); err == nil {
		j.unsynced, j.before = j.data[unsyncedAt] != 0, j.own
	}
	return err
}

func (j *journal) guessHeader() error {
	err := j.load(framesAt + frameHead)
	if err == nil && len(j.data) < framesAt+frameHead {
		err = fmt.Errorf("journal without frames: %w", ErrDamaged)
	}
	if err == nil {
		j.generation, j.before = binary.LittleEndian.Uint64(j.data[framesAt+12:])-1, j.number(framesAt+8)
	}
	return err
}

// readFrames reads the frames. The first one that does not follow the one before it ends them: behind the last commit there are
// zeros, frames of an earlier use, or a commit that was torn.
func (j *journal) readFrames(see func(change)) error {
	j.last, j.end = j.generation, framesAt
	for {
		generation, payload, next, err := j.frame(j.end)
		if err != nil || payload == nil || generation != j.last+1 || j.number(j.end+8) != j.before {
			return err
		}
		if err := eachChange(payload, see); err != nil {
			return err
		}
		j.before = j.number(j.end + 4)
		j.last, j.end = generation, next
	}
}

// number returns the number of four bytes at a position of what was read.
func (j *journal) number(at int64) uint32 { return binary.LittleEndian.Uint32(j.data[at:]) }

// load reads the file at least up to a position, if it is that long.
func (j *journal) load(to int64) error {
	for int64(len(j.data)) < to && !j.over {
		was := len(j.data)
		j.data = slices.Grow(j.data, readAhead)
		n, err := j.file.ReadAt(j.data[was:was+readAhead], int64(was))
		if j.data = j.data[:was+n]; errors.Is(err, io.EOF) {
			j.over = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// frame returns the frame at a position, and where the next one begins. The payload is nil where there is no sound frame.
func (j *journal) frame(at int64) (generation uint64, payload []byte, next int64, err error) {
	if err := j.load(at + frameHead); err != nil || int64(len(j.data)) < at+frameHead {
		return 0, nil, 0, err
	}
	head := j.data[at:]
	length := int64(binary.LittleEndian.Uint32(head))
	generation = binary.LittleEndian.Uint64(head[12:])
	if next = at + frameHead + length; length == 0 || generation-j.generation-1 >= mostFrames {
		return 0, nil, 0, nil
	}
	if err := j.load(next); err != nil || int64(len(j.data)) < next {
		return 0, nil, 0, err
	}
	body := j.data[at+8 : next]
	if crc32.ChecksumIEEE(body) != j.number(at+4) {
		return 0, nil, 0, nil
	}
	return generation, body[12:], next, nil
}

// beyond calls see with the changes of all sound frames behind the end: the disk has lost or changed one before them.
func (j *journal) beyond(see func(change)) error {
	if err := j.load(math.MaxInt64); err != nil {
		return err
	}
	for at := j.end; at < int64(len(j.data)); {
		_, payload, next, err := j.frame(at)
		if err == nil && payload != nil {
			err = eachChange(payload, see)
		} else {
			next = at + 1
		}
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// appendFrame appends the changes as one frame. The file system has them when it returns, and the disk after sync.
func (j *journal) appendFrame(changes []change) error {
	data := make([]byte, frameHead, 4096)
	binary.LittleEndian.PutUint32(data[8:], j.before)
	binary.LittleEndian.PutUint64(data[12:], j.last+1)
	for _, c := range changes {
		data = append(data, c.bucket)
		data = append(binary.AppendUvarint(data, uint64(len(c.key))), c.key...)
		if c.value == nil {
			data = append(data, 0)
			continue
		}
		data = append(binary.AppendUvarint(data, uint64(len(c.value)+1)), c.value...)
	}
	binary.LittleEndian.PutUint32(data, uint32(len(data)-frameHead))
	sum := crc32.ChecksumIEEE(data[8:])
	binary.LittleEndian.PutUint32(data[4:], sum)
	if _, err := j.file.WriteAt(data, j.end); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.data = append(j.data[:j.end], data...)
	j.last, j.before, j.end = j.last+1, sum, j.end+int64(len(data))
	return nil
}

// sync makes all commits up to now survive a power loss. It needs no lock. A failure is noted in the file: what the
// journal says may be on the disk or not.
func (j *journal) sync() error {
	if err := unix.Fdatasync(int(j.file.Fd())); err != nil {
		_, _ = j.file.WriteAt([]byte{1}, unsyncedAt) // the error that counts is returned
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close() // what must be on the disk was synced
	}
}

// eachChange calls see with each change of a payload.
func eachChange(payload []byte, see func(change)) error {
	for len(payload) > 0 {
		c := change{bucket: payload[0]}
		k, rest, ok := cutBytes(payload[1:], 0)
		if ok {
			c.value, rest, ok = cutBytes(rest, 1)
		}
		switch {
		case !ok:
			return fmt.Errorf("frame with a change that cannot be read: %w", ErrDamaged)
		case int(c.bucket) >= len(buckets): // the frame has a checksum: no bit was flipped
			return fmt.Errorf("frame with a change of bucket %d: install the newer limpet-ipam again: %w", c.bucket, ErrNewer)
		}
		c.key, payload = unsafe.String(unsafe.SliceData(k), len(k)), rest // no code changes what was read
		see(c)
	}
	return nil
}

// cutBytes returns the bytes whose length plus more stands before them; nil for a length of less than that.
func cutBytes(data []byte, more uint64) (cut, rest []byte, ok bool) {
	n, used := binary.Uvarint(data)
	if used <= 0 {
		return nil, nil, false
	}
	data = data[used:]
	if n < more {
		return nil, data, true
	}
	if n -= more; n > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:n:n], data[n:], true
}
