MACHINE() { machine nodes-us-east-1a; }
