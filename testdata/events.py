"""Makes events.tfevents, an event file that TensorBoard itself writes; with the name of another
event file, prints what TensorBoard reads from that."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

# a PNG of one black pixel
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
                    "0000000a49444154789c636000000002000148afa4710000000049454e44ae426082")

if len(sys.argv) > 1:
    events = EventAccumulator(sys.argv[1])
    events.Reload()
    for tag in events.Tags()["scalars"]:
        print(tag, [(e.step, round(e.value, 6)) for e in events.Scalars(tag)][-5:])
    for tag in events.Tags()["images"]:
        print(tag, [(e.step, e.width, e.height, len(e.encoded_image_string)) for e in events.Images(tag)])
    sys.exit()

with open("testdata/events.tfevents", "wb") as file:
    writer = RecordWriter(file)
    write = lambda event: writer.write(event.SerializeToString(deterministic=True))
    value = lambda **v: summary_pb2.Summary(value=[summary_pb2.Summary.Value(**v)])
    write(event_pb2.Event(wall_time=1700000000.5, file_version="brain.Event:2"))
    write(event_pb2.Event(wall_time=1700000001, step=0, summary=value(tag="loss", simple_value=0.0)))
    write(event_pb2.Event(wall_time=1700000002.25, step=300, summary=value(tag="loss", simple_value=0.3)))
    write(event_pb2.Event(wall_time=1700000003, step=1 << 40, summary=value(tag="Längstes", simple_value=float("nan"))))
    image = summary_pb2.Summary.Image(height=1, width=1, colorspace=3, encoded_image_string=PNG)
    write(event_pb2.Event(wall_time=1700000004, step=300, summary=value(tag="cases", image=image)))
    write(event_pb2.Event(wall_time=1700000005, step=301,
                          session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)))
    writer.flush()
